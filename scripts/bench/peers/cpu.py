"""The CPU of a process, as Linux counts it."""

import os


def seconds(pid="self"):
    """User and system time so far, of all its threads and of the children that it has waited for."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
