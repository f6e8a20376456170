# lit: `lit-22 --param builddir=BUILD test`; the tools of the build come before LLVM's in the PATH.
import os

import lit.formats

here = os.path.dirname(os.path.abspath(__file__))
build = os.path.abspath(lit_config.params.get("builddir", os.path.join(here, "../build/release")))

config.name = "adaptc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["unit", "e2e", "Inputs"]
config.test_source_root = here
config.test_exec_root = os.path.join(build, "test/lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), "/usr/lib/llvm-22/bin", config.environment["PATH"]])
config.substitutions.append(("%source_root", os.path.dirname(here)))
config.substitutions.append(("%build_root", build))
