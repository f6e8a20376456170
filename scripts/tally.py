#!/usr/bin/env python3
"""tally.py FILE: counts the tests of a JUnit XML file, as ctest and lit write it.

Last line: `N passed, N failed`. No file, or no test that ran, is one failure."""

import sys
import xml.etree.ElementTree as ElementTree


def main():
    try:
        cases = list(ElementTree.parse(sys.argv[1]).iter("testcase"))
    except (OSError, ElementTree.ParseError) as problem:
        print(f"no results: {problem}\n0 passed, 1 failed")
        return 1
    # ctest calls a skipped test notrun, as it does one that it could not start; what differs is why.
    reason = lambda c: c.find("skipped").get("message", "") if c.find("skipped") is not None else None
    skipped = [c for c in cases if reason(c) is not None
               and (c.get("status") != "notrun" or reason(c).startswith("SKIP_"))]
    bad = [c for c in cases if c not in skipped
           and (c.find("failure") is not None or c.find("error") is not None
                or c.get("status") in ("fail", "notrun"))]
    good = len(cases) - len(bad) - len(skipped)
    for case in bad:
        print("FAILED:", case.get("classname"), case.get("name"))
    if skipped:
        print(f"{len(skipped)} skipped:", *(case.get("name") for case in skipped))
    failed = len(bad) or (good == 0)
    print(f"{good} passed, {int(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
