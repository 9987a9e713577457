"""Owns the small lies: ways to change one place of a module so that its meaning changes; must not know tests."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""A comparison becomes its neighbour at the boundary and its reverse."""

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}

SWAPPED_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "ceil": "floor"}

SWAPPED_MEMBERS: dict[str, dict[str, tuple[str, ...]]] = {
    "Verdict": {"PASS": ("ERROR",), "FAIL": ("PASS",), "ERROR": ("PASS",), "NOT_RUN": ("PASS",), "RECORDED": ("PASS",)},
    "Outcome": {"MET": ("MISSED",), "MISSED": ("MET",), "NOT_MEASURED": ("MET",)},
    "DecisionOutcome": {
        "ACCEPTED": ("UNDECIDED",),
        "REJECTED": ("ACCEPTED", "UNDECIDED"),
        "UNDECIDED": ("ACCEPTED", "REJECTED"),
    },
    "Severity": {"FAIL": ("WARN",), "WARN": ("FAIL",), "RECORD_ONLY": ("FAIL",)},
    "State": {"REQUIRED": ("RECORDED",), "RECORDED": ("REQUIRED",), "NOT_APPLICABLE": ("RECORDED",)},
    "Per": {"GPU": ("NODE",), "NODE": ("GPU",), "CLUSTER": ("NODE",), "SUBJECT": ("NODE",)},
}
"""ERROR read as PASS and its like."""


@dataclass(frozen=True)
class Mutant:
    """A changed module: `name` is stable under edits elsewhere, `line` is where the original stands."""

    name: str
    line: int
    source: str


@dataclass(frozen=True)
class _Slot:
    """A place in the tree that holds a node, so that another can be put there for a moment."""

    parent: ast.AST
    field: str
    index: int | None
    scope: str

    def node(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        found: ast.AST = value if self.index is None else value[self.index]
        return found

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants(module: str, source: str, only: Collection[str] = ()) -> list[Mutant]:
    """Return every mutant of a module's source in its order, or only those of the given names."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    found: list[Mutant] = []
    for slot in list(_slots(tree, "")):
        node = slot.node()
        for label, other in _others(node, slot):
            before = _text(node.test if isinstance(node, ast.If) else node)
            name = f"{module}.{slot.scope or 'module'}: {label}: {before}"
            if not isinstance(other, ast.Pass | ast.If | ast.Match):
                name += f" -> {_text(other)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" #{seen[name]}"
            if only and name not in only:
                continue
            slot.put(other)
            found.append(Mutant(name, getattr(node, "lineno", 0), ast.unparse(ast.fix_missing_locations(tree))))
            slot.put(node)
    return found


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else text[:97] + "..."


def _slots(parent: ast.AST, scope: str) -> Iterator[_Slot]:
    """Yield the places that may be changed; annotations, docstrings and __all__ mean nothing at run time."""
    for field, value in ast.iter_fields(parent):
        if field in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            if _is_docstring(child) or _is_export(child) or _is_type(child):
                continue
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}".lstrip(".")
            yield _Slot(parent, field, index, scope)
            yield from _slots(child, inner)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_type(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr):
        return True  # Bound = AtLeast | AtMost: which classes belong together is for the type checker
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"tuple", "list", "dict", "Mapping", "Sequence", "Literal"}
    )


def _is_export(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)


Other = tuple[str, ast.AST]


def _others(node: ast.AST, slot: _Slot) -> Iterator[Other]:
    """Yield what may stand in a node's place, each with the name of the lie."""
    yield from _other_conditions(node)
    yield from _other_values(node, slot)
    yield from _other_calls(node)
    yield from _other_statements(node)


def _other_conditions(node: ast.AST) -> Iterator[Other]:
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for turned in TURNED[type(op)]:
                    yield "compare", ast.Compare(left, [*ops[:i], turned(), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for i in range(len(values)):
                kept = [*values[:i], *values[i + 1 :]]
                yield "drop operand", kept[0] if len(kept) == 1 else ast.BoolOp(op, kept)
        case ast.UnaryOp(ast.Not(), operand):
            yield "drop not", operand
        case ast.IfExp():
            yield "always", node.body
            yield "never", node.orelse


def _other_values(node: ast.AST, slot: _Slot) -> Iterator[Other]:
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            yield "keep left of |", left
            yield "keep right of |", right
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Constant(bool() as value):
            yield "flip", ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield "one more", ast.Constant(value + 1)
            yield "one less", ast.Constant(value - 1)
        case ast.Constant(str()) if isinstance(slot.parent, ast.Compare):
            yield "other word", ast.Constant("another word")
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
            yield from _shorter(node)


def _other_calls(node: ast.AST) -> Iterator[Other]:
    match node:
        case ast.Call(ast.Name(name), args, keywords) if name in SWAPPED_CALLS:
            yield "call", ast.Call(ast.Name(SWAPPED_CALLS[name]), args, keywords)
        case ast.Call(ast.Attribute(value, name), args, keywords) if name in SWAPPED_CALLS:
            yield "call", ast.Call(ast.Attribute(value, SWAPPED_CALLS[name]), args, keywords)
        case ast.Attribute(ast.Name(enum), member):
            for other in SWAPPED_MEMBERS.get(enum, {}).get(member, ()):
                yield "member", ast.Attribute(ast.Name(enum), other)


def _shorter(node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> Iterator[Other]:
    """Yield a display without each of its elements: a bound, a key, a verdict that is no longer there."""
    if isinstance(node, ast.Dict):
        for i in range(len(node.keys)):
            yield (
                f"drop entry {i}",
                ast.Dict([*node.keys[:i], *node.keys[i + 1 :]], [*node.values[:i], *node.values[i + 1 :]]),
            )
    elif not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return
    elif isinstance(node, ast.Set) and len(node.elts) == 1:
        yield "drop element 0", ast.Call(ast.Name("set"), [], [])
    else:
        for i in range(len(node.elts)):
            kept = [*node.elts[:i], *node.elts[i + 1 :]]
            yield f"drop element {i}", type(node)(kept)


def _other_statements(node: ast.AST) -> Iterator[Other]:
    match node:
        case ast.Raise() | ast.AugAssign() | ast.Expr() | ast.Continue():
            yield "delete", ast.Pass()
        case ast.If():
            yield "always", ast.If(ast.Constant(True), node.body, node.orelse)
            yield "never", ast.If(ast.Constant(False), node.body, node.orelse)
        case ast.comprehension(target, iterable, ifs, is_async):
            for i in range(len(ifs)):
                yield "drop filter", ast.comprehension(target, iterable, [*ifs[:i], *ifs[i + 1 :]], is_async)
        case ast.Match(subject, cases) if len(cases) > 1:
            for i in range(len(cases)):
                yield f"drop case {i}", ast.Match(subject, [*cases[:i], *cases[i + 1 :]])
