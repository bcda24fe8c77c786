"""Runs the checks of a package: the same for every framework.

`checks.failures(package, name, facts, calls, compiled, shapes)` yields the name of each check of an operator that failed,
with the reason, and `checks.failures_of_all(package, calls)` those of the package as a whole.
"""

import argparse
import logging
import sys
import time
import warnings

from checks import failures, failures_of_all


def rows_as_tests(package, calls):
    """One test function for each row, and one for the package."""

    def test(find, *given):
        def run_one():
            found = list(find(package, *given))
            assert not found, "\n".join(f"{what}: {why}" for what, why in found)

        return run_one

    rows = {f"test_{name}": test(failures, name, *given) for name, given in calls.items()}
    return {"test_package": test(failures_of_all, calls), **rows}


def run(package, calls):
    """Checks the rows that the command line names, or all; prints what failed."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description="Tests of the operators of this package.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows")
    parser.add_argument("--compile", action="store_true", help="compile and export each call too, which takes seconds")
    parser.add_argument("--shapes", type=int, default=30, metavar="N", help="sizes of a row with which fake and real are compared")
    options = parser.parse_args()
    started, failed, empty = time.time(), 0, []
    chosen = {name: calls[name] for name in options.rows} if options.rows else calls
    for name, (facts, drawn) in chosen.items():
        if not drawn:
            empty.append(name)
            continue
        try:
            found = list(failures(package, name, facts, drawn, options.compile, options.shapes))
        except Exception as e:
            found = [("call", f"{type(e).__name__}: {str(e)[:2000]}")]
        failed += bool(found)
        _report(name, found, options.rows)
    whole = [] if options.rows else list(failures_of_all(package, calls))
    _report("package", whole, True)
    print(f"{len(chosen) - failed - len(empty)} of {len(chosen)} rows passed, {failed} failed, {len(empty)} have no calls, "
          f"{time.time() - started:.0f} s")
    if empty:
        print("without calls: " + ", ".join(empty))
    sys.exit(1 if failed or whole else 0)


def _report(name, found, at_length):
    if found:
        print(f"{name}: {', '.join(sorted({what for what, _ in found}))}", flush=True)
    for what, why in found[:3] if at_length else found[:1]:
        print(f"    {what}: {why if at_length else why[:300]}", flush=True)
