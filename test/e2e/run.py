#!/usr/bin/env python3
"""Runs the end-to-end tests: run.py [NAME…]   (tiny, cli, smollm2; all without)

Takes the tools from $ADAPT_BUILD/bin (build/release/bin). Last line: `N passed, N failed`.
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    def __init__(self, *args):
        super().__init__(*args)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    sys.path.insert(0, str(HERE))
    names = sys.argv[1:] or sorted(p.stem.removeprefix("test_") for p in HERE.glob("test_*.py"))
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"test_{name}" for name in names])
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result)
    result = runner.run(suite)
    # An error in setUpClass stands for all tests of its class, which did not run.
    failed = suite.countTestCases() - result.passed - len(result.skipped)
    failed = max(failed, len(result.failures) + len(result.errors))
    print(f"{result.passed} passed, {failed} failed")
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    sys.exit(main())
