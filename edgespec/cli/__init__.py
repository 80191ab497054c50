"""The command line: arguments in, answers on stdout, everything else on stderr."""
