#include "DriverLibrary.h"

#include <vector>

#include <dlfcn.h>

using namespace adapt;
using namespace adapt::rt;

absl::Status gpu::openDriverLibrary(const char *what, const std::string &path,
                                    absl::Span<const char *const> names,
                                    absl::Span<const DriverFunction> functions) {
  std::vector<std::string> candidates(names.begin(), names.end());
  if (!path.empty())
    candidates = {path};
  void *library = nullptr;
  std::vector<std::string> reasons;
  for (const std::string &name : candidates) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library)
      break;
    reasons.push_back(dlerror());
  }
  if (!library)
    return absl::NotFoundError(
        absl::StrCat("no ", what, " on this machine (", absl::StrJoin(reasons, "; "), ")"));
  std::vector<std::string> missing;
  for (const DriverFunction &function : functions) {
    *function.address = dlsym(library, function.name);
    if (!*function.address && !function.optional)
      missing.push_back(function.name);
  }
  if (!missing.empty())
    return absl::NotFoundError(absl::StrCat("the ", what, " lacks ", absl::StrJoin(missing, ", "),
                                            ": install a newer one"));
  return absl::OkStatus();
}
