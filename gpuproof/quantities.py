"""Kubernetes' quantities of bytes as numbers; must not know what is counted."""

_FACTORS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_FACTORS |= {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def quantity(text: str) -> int | None:
    """A whole Kubernetes quantity of bytes, e.g. "256Mi"; None where it is none."""
    digits = text.rstrip("KMGTPik")
    factor = _FACTORS.get(text[len(digits) :])
    return int(digits) * factor if factor and digits.isascii() and digits.isdigit() else None
