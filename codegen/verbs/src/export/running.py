"""Runs the checks of a package: the same for every framework.

`failures(package, name, facts, calls, compiled=False)` yields the name of each check of an operator that failed, with the
reason.
"""

import logging
import sys
import time
import warnings


def rows_as_tests(failures, package, calls):
    """One test function for each row."""

    def test(name, facts, calls):
        def run_one():
            found = list(failures(package, name, facts, calls))
            assert not found, "\n".join(f"{what}: {why}" for what, why in found)

        return run_one

    return {f"test_{name}": test(name, *given) for name, given in calls.items()}


def run(failures, package, calls):
    """Checks the rows that the command line names, or all; prints what failed."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    words = sys.argv[1:]
    compiled = "--compile" in words
    wanted = [word for word in words if not word.startswith("-")]
    started, failed, empty = time.time(), {}, []
    for name, (facts, drawn) in calls.items():
        if wanted and name not in wanted:
            continue
        if not drawn:
            empty.append(name)
            continue
        try:
            found = list(failures(package, name, facts, drawn, compiled))
        except Exception as e:
            found = [("call", f"{type(e).__name__}: {str(e)[:2000]}")]
        if found:
            failed[name] = found
            print(f"{name}: {', '.join(sorted({what for what, _ in found}))}", flush=True)
            for what, why in found[:3] if wanted else found[:1]:
                print(f"    {what}: {why if wanted else why[:300]}", flush=True)
    count = len(wanted) if wanted else len(calls)
    print(f"{count - len(failed) - len(empty)} of {count} rows passed, {len(failed)} failed, {len(empty)} have no calls, "
          f"{time.time() - started:.0f} s")
    if empty:
        print("without calls: " + ", ".join(empty))
    sys.exit(1 if failed else 0)
