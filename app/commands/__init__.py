"""One subcommand a file: `add_arguments(parser)` and `run(args, console) -> exit status`."""
