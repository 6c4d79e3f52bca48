"""`python -m gantry_loadtest`: one run, or the list of profiles. Locust is imported only for a run."""

import sys

from gantry_loadtest.options import Plan, Refused, parse

EXIT_REFUSED = 2


def main(words: list[str]) -> int:
    """Parse the arguments, run and return the exit status. With `--check` first, only check them."""
    only_check = words[:1] == ["--check"]
    try:
        plan = parse(words[1:] if only_check else words)
        if not isinstance(plan, Plan):
            sys.stdout.write(plan)
            return 0
        if only_check:
            return 0
        from gantry_loadtest.running.run import run

        return run(plan)
    except Refused as refused:
        sys.stderr.write(f"gantry: load: {refused}\n")
        return EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
