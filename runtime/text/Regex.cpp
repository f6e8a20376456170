#include "text/Regex.h"
#include "text/OnigSyntax.h"
#include "text/Utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

namespace adapt::rt {

struct Regex::Code {
  pcre2_code *pcre = nullptr;
  std::string pattern;
  ~Code() { pcre2_code_free(pcre); }
};

namespace {

// What a match needs beside the pattern. One a thread: patterns are shared, this is not.
struct Scratch {
  pcre2_match_data *data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack *stack = pcre2_jit_stack_create(64 << 10, 16 << 20, nullptr);
  Scratch() {
    if (context && stack)
      pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

std::string errorText(int code) {
  char buffer[256];
  if (pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR *>(buffer), sizeof(buffer)) < 0)
    return fmt::format("error {}", code);
  return buffer;
}

} // namespace

absl::StatusOr<Regex> Regex::compile(std::string_view onigPattern) {
  absl::StatusOr<std::string> translated = translateOnigPattern(onigPattern);
  if (!translated.ok())
    return translated.status();
  auto code = std::make_shared<Code>();
  code->pattern = std::string(onigPattern);
  // Newlines and the like must not depend on how the library was built.
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context)
    return absl::ResourceExhaustedError("no memory to compile a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->pcre = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, context.get());
  if (!code->pcre)
    return absl::InvalidArgumentError(fmt::format("pattern '{}' (for PCRE2: '{}', offset {}): {}",
                                                  onigPattern, *translated, offset,
                                                  errorText(error)));
  // Where the system forbids generated code, PCRE2 interprets the pattern: slower, the same
  // matches.
  (void)pcre2_jit_compile(code->pcre, PCRE2_JIT_COMPLETE);
  Regex regex;
  regex.code = std::move(code);
  return regex;
}

absl::Status Regex::findAll(std::string_view text, std::vector<Match> &matches) const {
  static thread_local Scratch scratch;
  if (!scratch.data || !scratch.context)
    return absl::ResourceExhaustedError("no memory to match a pattern");
  matches.clear();
  size_t pos = 0, lastEnd = std::string_view::npos;
  while (pos <= text.size()) {
    int rc = pcre2_match(code->pcre, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), pos,
                         PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
    if (rc == PCRE2_ERROR_NOMATCH)
      break;
    if (rc < 0)
      return absl::ResourceExhaustedError(
          fmt::format("pattern '{}' on {} bytes of text, from byte {}: {}", code->pattern,
                      text.size(), pos, errorText(rc)));
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch.data);
    if (range[0] == range[1] && range[1] == lastEnd) {
      pos = range[1] < text.size() ? range[1] + nextUtf8(text.substr(range[1])).length
                                   : text.size() + 1;
      continue;
    }
    pos = lastEnd = range[1];
    matches.push_back({range[0], range[1]});
  }
  return absl::OkStatus();
}

} // namespace adapt::rt
