"""Which nodes of a tree the target agrees with, written for reading."""


def accepted_path(parents, tokens, answers):
    """Nodes from the root down while some child is what the target answered at its parent."""
    path = [0]
    while True:
        here = path[-1]
        nexts = [
            n for n, parent in enumerate(parents) if parent == here and tokens[n] == answers[here]
        ]
        if not nexts:
            return path
        path.append(nexts[0])
