"""What a sketch is worth, by the facts of its program: is the failing statement right, which predictor is the root
cause, how near are the steps to the ideal sketch.

Nothing is given away here: a predictor is the root cause only if its kind, its pattern, its variable, and all its
statements with the threads that execute them are those of the facts, in the order of the facts.
"""

import itertools
import re
from pathlib import PurePath

# A step or a statement as far as comparing goes: the role of its thread, its file without folders, its line.


def line(statement):
    return PurePath(statement.get("file") or "").name, statement.get("line")


def failing_is_right(program, sketch):
    """Whether the failing statement is the one in the facts; for a hang, one of the blocking calls of its cycle."""
    failure, statement = program.facts["failure"], sketch["failure"].get("statement")
    marks = failure["blocked"] if failure["kind"] == "hang" else [failure["at"]]
    return statement is not None and line(statement) in {program.marks[mark] for mark in marks}


def rank_of_root(program, sketch):
    """The rank of the first predictor that is the root cause, if there is one."""
    found = (p["rank"] for p in sketch["predictors"] if is_root(program, p))
    return next(found, None)


def is_root(program, predictor):
    root, kind = program.facts["root"], program.facts["class"].split("-")[0]
    statements = [place(program, s) for s in root["statements"]]
    ours = [place_of(s) for s in predictor["statements"]]
    if kind == "deadlock":
        # Who holds what since when, then who wants what; it does not matter with whom one begins.
        half = len(statements) // 2
        return (predictor.get("pattern") == "deadlock" and set(ours[:half]) == set(statements[:half])
                and set(ours[half:]) == set(statements[half:]) and len(ours) == len(statements))
    if kind in ("sequential", "branch"):
        return is_sequential_root(root, predictor, statements, ours)
    variables = [v.strip() for v in root["variable"].split(",")]
    named = [v.strip() for v in (predictor.get("variable") or "").split(",")]
    if kind == "multi" and len(named) > 1:
        # One about several variables at once: the facts' interleaving, as far as the process lived to see it.
        shown = {s["at"] for s in program.facts["ideal"]}
        own = [s for s in root["statements"] if s["at"] in shown]
        known = all(any(same_variable(v, name) for v in variables) for name in named)
        return known and is_interleaving(predictor, [place(program, s) for s in own], accesses(own))
    if not any(same_variable(v, predictor.get("variable")) for v in variables):
        return False
    if kind == "multi":
        # A predictor about one variable: the part of the facts' interleaving that is about it.
        return any(is_interleaving(predictor, *of_variable(program, root, v)) for v in variables
                   if same_variable(v, predictor.get("variable")))
    if predictor["kind"] != kind:
        return False
    if predictor.get("pattern") == "-R":
        return is_too_early(program, predictor, root, statements, ours)
    return (predictor.get("pattern") == root["pattern"]
            and is_interleaving(predictor, statements, accesses(root["statements"])))


def accesses(statements):
    return [s.get("access", "") for s in statements]


def of_variable(program, root, variable):
    """The places and accesses of the root statements on one variable, as far as the process lived to see them."""
    shown = {s["at"] for s in program.facts["ideal"]}
    own = [s for s in root["statements"] if s.get("variable", variable) == variable and s["at"] in shown]
    return [place(program, s) for s in own], accesses(own)


def is_interleaving(predictor, statements, wanted):
    """Whether a predictor's accesses are these in this order. A statement that reads and writes may stand for either,
    or for both."""
    ours = [(place_of(s), s.get("access")) for s in predictor["statements"]]
    letters = [["R", "W", "RW"] if access == "RW" else [access] for access in wanted]
    ways = ([(at, letter) for at, chosen in zip(statements, way) for letter in chosen]
            for way in itertools.product(*letters))
    return len(statements) > 1 and ours in ways


def is_too_early(program, predictor, root, statements, ours):
    """An order violation in which the thread dies of its read: the write that the facts end with never came."""
    never_came = root["statements"][-1]["at"] not in {s["at"] for s in program.facts["ideal"]}
    missing = {place_of(s) for s in predictor.get("missing", [])}
    return root["pattern"] == "RW" and never_came and ours == statements[:1] and statements[-1] in missing


def is_sequential_root(root, predictor, statements, ours):
    """One of the statements that make and use the bad value: by that value, or by the decision where it only decides."""
    for statement, at in zip(root["statements"], statements):
        if [at] != ours:
            continue
        if predictor["kind"] == "value" and root["pattern"] == "value":
            return same_variable(statement.get("variable", root["variable"]), predictor.get("variable"))
        if predictor["kind"] == "branch":
            return root["pattern"] == "branch" or "access" not in statement
    return False


def place(program, fact):
    return (fact["thread"], *program.marks[fact["at"]])


def place_of(predictor_statement):
    return (predictor_statement["thread_role"], *line(predictor_statement))


def same_variable(fact, ours):
    """Globals have one name. What a pointer leads to is named after the pointer, which each function calls as it
    likes: there the member counts. Rust's `self` is one, too, and has the caller's name where a method was inlined."""
    if ours is None:
        return False
    fact, ours = plain(fact), plain(ours)
    through_pointer = re.search(r"->|\*|^self\.", fact)
    return member(fact) == member(ours) if through_pointer else fact == ours


def plain(name):
    return re.sub(r"^(?:\w+::)+", "", name.strip())


def member(name):
    return re.split(r"->|\.", re.sub(r"\[[^\]]*\]$", "", name))[-1]


def accuracy(program, sketch):
    """Relevance, ordering and their mean, as in `diagnosis::accuracy`. A sketch that no run went into does not say
    which thread executes what: its lines are compared."""
    roles = {t["id"]: t.get("role") or "??" for t in sketch["threads"]}
    ours = [((roles[s["thread"]], *line(s["statement"])), "access" in s) for s in sketch["steps"]]
    ideal = [(place(program, s), "access" in s) for s in program.facts["ideal"]]
    if not any(t.get("role") for t in sketch["threads"]):
        ours, ideal = ([(at[1:], is_access) for at, is_access in steps] for steps in (ours, ideal))
    mine, theirs = {at for at, _ in ours}, {at for at, _ in ideal}
    relevance = len(mine & theirs) / len(mine | theirs)
    mine, theirs = positions(ours), positions(ideal)
    common = [(mine[key], theirs[key]) for key in mine.keys() & theirs.keys()]
    pairs = [(a, b) for n, a in enumerate(common) for b in common[n + 1:]]
    if program.facts["class"] == "deadlock":
        # Who takes his first lock first, and who then waits first, is one run's own: the facts have these in halves.
        order = [place(program, s) for s in program.facts["ideal"] if "access" in s]
        half = {at: n < len(order) // 2 for n, at in enumerate(order)}
        place_at = {n: at for (at, _), n in theirs.items()}
        is_free = lambda a, b: a[0] != b[0] and half[a] == half[b]
        pairs = [(a, b) for a, b in pairs if not is_free(place_at[a[1]], place_at[b[1]])]
    same = sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs)
    ordering = same / len(pairs) if pairs else 1.0
    return relevance, ordering, (relevance + ordering) / 2


def positions(steps):
    """The place of each access, by its line and how many of the same line come after it."""
    after, places = {}, {}
    for n in range(len(steps) - 1, -1, -1):
        at, is_access = steps[n]
        if is_access:
            later = after.get(at, 0)
            places[at, later] = n
            after[at] = later + 1
    return places


def differences(program, sketch):
    """What the sketch has too much and too little, for people."""
    roles = {t["id"]: t.get("role") or "??" for t in sketch["threads"]}
    ours = {(roles[s["thread"]], *line(s["statement"])) for s in sketch["steps"]}
    ideal = {place(program, s) for s in program.facts["ideal"]}
    show = lambda at: f"{at[0]} {at[1]}:{at[2]}"
    return [f"+ {show(at)}" for at in sorted(ours - ideal, key=str)] + [f"- {show(at)}" for at in sorted(ideal - ours, key=str)]


def in_words(sketch):
    """The first predictor in one line."""
    if not sketch["predictors"]:
        return "none"
    best = sketch["predictors"][0]
    where = ", ".join(f"{role} {file}:{at}" for role, file, at in map(place_of, best["statements"]))
    words = [best["kind"], best.get("pattern"), best.get("variable"), best.get("predicate"), f"({where})"]
    return " ".join(word for word in words if word)
