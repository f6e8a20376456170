#include "adapt/Version.h"

#include "absl/strings/str_cat.h"

std::string adapt::rt::versionText(absl::string_view tool) {
  constexpr const char *commit =
#include "runtime_commit.inc"
      ;
  return absl::StrCat(tool, " ", ADAPT_VERSION, " (", commit, "), devices: cpu");
}
