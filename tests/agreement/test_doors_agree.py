"""The same question through every door: where answers mean the same, they are the same.

Questions are random over shipped models, devices, engines, formats, layouts and methods. A failure
names the command lines that disagree, both numbers, and of how many pairs it is so.
"""

import math

import pytest

import rooftree
from hardware_profiles.errors import RooftreeError
from tests.agreement.doors import (
    INFEASIBLE,
    REFUSED,
    Relation,
    ask,
    cell_of_a_sweep,
    page_of_the_dashboard,
)
from tests.agreement.questions import keywords

pytestmark = pytest.mark.heavy

PRICED = (
    "step_s",
    "tokens_per_step",
    "tokens_per_s",
    "speedup",
    "proposal_ratio",
    "limit",
    "breakdown_s",
    "step_s_interval",
    "tokens_per_step_interval",
    "tokens_per_s_interval",
    "speedup_interval",
)
COLUMNS = ("step_s", "tokens_per_step", "tokens_per_s", "speedup")
PAGE = {
    "tokens per step": ("tokens_per_step", 1.0, 5e-4),
    "step (ms)": ("step_s", 1e3, 5e-4),
    "tokens/s": ("tokens_per_s", 1.0, 0.05),
    "speedup (×)": ("speedup", 1.0, 5e-4),
}
"""Columns of the dashboard's table: field, factor of its unit, and half of its last digit."""
ROOT = 1e-3
"""Of a speedup at a root: the search for it ends at an acceptance, whose effect on the speedup is
of this size."""
PROMPT_STEPS = 3.0
"""Steps of its replica that a prompt of 16 tokens delays at most: a pass of its own, or rows in a
pass of others, whose experts it may read alone, and what the engine does around it."""
TABLED_TOKENS = 64
"""Of context, from one entry to the next of the tables that simulations look their steps up in."""
BRIEF = {"prompt_tokens": 16, "output_tokens": 8128}
"""Loads whose prompts take hardly any time."""
STEADY = 0.03
"""Of a simulated step: the first prompts and the last iterations are among the mean, in which fewer
requests decode."""
SPLIT = 0.03
"""Of the time of a prompt that is split: simulations look up what its parts take."""


def _rows(said, key="predictions"):
    return {row["draft_tokens"]: row for row in said.body.get(key, ()) if row["feasible"]}


def _assert_little_less(relation, emitted, row, lines):
    """Tokens per second with brief prompts in between: less than without, by the few steps that
    they take."""
    steps = (
        BRIEF["output_tokens"] / row["tokens_per_step"] / row["batch"]
    )  # of the replica, while one request ends
    relation.at_most("tokens/s with prompts", emitted, row["tokens_per_s"], lines)
    relation.at_most(
        "tokens/s without prompts",
        row["tokens_per_s"],
        emitted * (1.0 + PROMPT_STEPS / steps),
        lines,
    )


@pytest.mark.questions(60)
def test_optimize_prices_a_row_as_predict_does(questions):
    relation = Relation("a choice of `optimize` is priced as `predict` prices it")
    for question in questions:
        best, priced = ask(question.optimize()), ask(question.predict())
        rows = _rows(priced)
        for choice in best.body.get("choices", ()):
            if choice["draft_tokens"] in rows:
                lines = [best.line, priced.line]
                relation.rows(PRICED, choice, rows[choice["draft_tokens"]], lines)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(60)
def test_a_cell_of_a_sweep_is_the_answer_of_optimize(questions):
    relation = Relation(
        "a row of `sweep` is the choice of `optimize` in its cell, interval by interval"
    )
    for question in questions:
        if question.draft is not None:
            continue  # a sweep names no draft model
        plain = question.changed(dtype=None, kv_dtype=None, match_rate=None)
        swept, best = cell_of_a_sweep(plain), ask(plain.competition())
        lines = [swept.line, best.line]
        relation.equal("exit code", swept.code, best.code, lines)
        if not swept.code == best.code == 0:
            continue
        (choice,) = best.body["choices"]
        relation.rows(
            ("method", "topology", "draft_tokens", "limit", *COLUMNS), swept.body, choice, lines
        )
        for name in COLUMNS:
            ends = [swept.body[f"{name}_low"], swept.body[f"{name}_high"]]
            relation.equal(f"interval of {name}", ends, choice[f"{name}_interval"], lines)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_a_batch_has_the_same_answer_alone_and_among_others(questions):
    """Many points are computed at once: none of their prices depends on which others there are."""
    relation = Relation("`optimize` says of a batch what it says of it among other batches")
    for question in questions:
        alone = ask(question.optimize("1,3,5"))
        among = ask(
            question.changed(batch=f"{question.batch},{question.batch + 7},300").optimize("1,3,5")
        )
        lines = [alone.line, among.line]
        here = [row for row in among.body.get("choices", ()) if row["batch"] == question.batch]
        for choice, beside in zip(alone.body.get("choices", ()), here, strict=False):
            relation.rows(("draft_tokens", *PRICED), choice, beside, lines)
            first, second = (said.body["cells"] for said in (alone, among))
            (other,) = [cell for cell in second if cell["batch"] == question.batch]
            relation.equal(
                "runner-up's loss",
                first[0]["lost_ratio"],
                other["lost_ratio"],
                lines,
                absolute=1e-9,
            )
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_a_design_has_the_same_price_alone_and_among_others(questions):
    relation = Relation("`--search full` prices a design alike alone and among others")
    for question in questions:
        among = ask(question.full(**{"batch-caps": "4,16,33,64,128", "draft-tokens": "1,2,3,5,8"}))
        for design in among.body.get("choices", ()):
            fixed = {"batch-caps": design["batch_cap"], "draft-tokens": design["draft_tokens"] or 1}
            alone = ask(question.full(**fixed))
            lines = [alone.line, among.line]
            others = [*alone.body.get("choices", ()), *alone.body.get("alternatives", ())]
            same = [other for other in others if other["draft_tokens"] == design["draft_tokens"]]
            for other in same[:1]:
                relation.rows(
                    ("tokens_per_s", "tpot_s", "ttft_s", "requests_per_s"), other, design, lines
                )
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_the_dashboard_recommends_what_optimize_does(questions):
    relation = Relation("the first row of the dashboard's first page is the choice of `optimize`")
    for question in questions:
        plain = question.changed(match_rate=None)
        page, best = page_of_the_dashboard(plain), ask(plain.competition())
        lines = [page.line, best.line]
        relation.equal("exit code", page.code, best.code, lines)
        if not page.code == best.code == 0:
            continue
        (choice,) = best.body["choices"]
        relation.equal("drafter", page.body["drafter"], choice["drafter"], lines)
        for column, (name, factor, digit) in PAGE.items():
            relation.equal(
                column, page.body[column], choice[name] * factor, lines, absolute=1.001 * digit
            )
    relation.holds(least=len(questions))


@pytest.mark.questions(12)
@pytest.mark.parametrize(
    "verb", ["predict", "optimize", "breakeven", "capacity", "full", "simulate"]
)
def test_python_answers_what_the_command_line_answers(questions, verb):
    relation = Relation(f"`rooftree.{verb}` answers as the command does, refusals too")
    more = {"users": 2, "count": 4} if verb == "simulate" else {}
    for question in questions:
        spelled = getattr(question, verb)(**more)
        typed = ask(spelled)
        name = spelled[0]
        lines = [typed.line]
        try:
            answer = getattr(rooftree, name)(**keywords(spelled)).to_json()
        except RooftreeError as error:
            relation.equal("exit code", error.exit_code, typed.code, lines)
            continue
        body = {key: value for key, value in typed.body.items() if key != "exports"}
        relation.rows(body.keys() - {"inputs"}, answer, body, lines)
    relation.holds(least=len(questions))


@pytest.mark.questions(60)
def test_every_verb_refuses_what_another_refuses(questions):
    """A cell that cannot run ends with 2 everywhere; one that does not fit ends alike where its
    batch is the question.

    A simulation draws the lengths of stated acceptance, and says of methods that need more what
    level they need.
    """
    relation = Relation("what cannot run or does not fit ends alike through every door")
    for drawn in questions:
        question = drawn.changed(context=drawn.prompt_tokens + drawn.output_tokens)
        priced = ask(question.predict(question.draft_tokens))
        lines = [priced.line]
        for other in (ask(question.predict(0)), ask(question.optimize())):
            if REFUSED in (priced.code, other.code):
                relation.equal("exit code", priced.code, other.code, [*lines, other.line])
        best, plain = ask(question.optimize()), ask(question.predict())
        relation.equal("exit code", best.code, plain.code, [best.line, plain.line])
        others = [ask(question.breakeven()), ask(question.simulate(users=1, count=1))]
        for other in (*others, ask(question.capacity())):
            if (
                REFUSED in (priced.code, other.code)
                and "needs a trace of level" not in other.message
            ):
                relation.equal("exit code", other.code, priced.code, [*lines, other.line])
    relation.holds(least=len(questions))


@pytest.mark.questions(40)
def test_the_largest_batch_of_a_plan_fits_and_one_more_does_not(questions):
    relation = Relation(
        "`predict` has room for the largest batch that `capacity` names, and for none beyond"
    )
    for question in questions:
        plans = ask(question.capacity())
        full = question.changed(context=question.prompt_tokens + question.output_tokens)
        for plan in plans.body.get("plans", ()):
            if not plan["feasible"] or plan["memory"]["largest_batch"] >= 10**6:
                continue
            # `predict` fills whole blocks of the cache up to its context, `capacity` half a block
            # more on average
            memory, largest = plan["memory"], plan["memory"]["largest_batch"]
            beside = memory["block_waste_bytes"] / memory["request_bytes"]
            low, high = (
                math.floor(largest * (1.0 - beside)),
                math.ceil((largest + 1) * (1.0 + beside)),
            )
            for batch, code in ((max(low, 1), 0), (high, INFEASIBLE)):
                priced = ask(full.changed(batch=batch).predict(plan["draft_tokens"]))
                relation.equal(
                    f"exit code at batch {batch}", priced.code, code, [plans.line, priced.line]
                )
    relation.holds(least=len(questions))


@pytest.mark.questions(60)
def test_at_the_break_even_point_the_speedup_is_one(questions):
    relation = Relation("`predict` at the root of `breakeven` has a speedup of 1")
    for question in questions:
        even = ask(question.breakeven(**{"match-rate": question.match_rate}))
        for point in even.body.get("points", ()):
            least = point.get("least_acceptance")
            if not point["feasible"] or least is None or not 0.0 < least < 1.0:
                continue
            priced = ask(question.changed(acceptance=least).predict(question.draft_tokens))
            for row in _rows(priced).values():
                relation.equal("speedup", row["speedup"], 1.0, [even.line, priced.line], rel=ROOT)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_a_plan_is_as_fast_as_its_batch(questions):
    """Requests of hardly any prompt finish at the rate at which `predict` emits their tokens."""
    relation = Relation(
        "a busy replica of `capacity` emits the tokens that `predict` says at its batch and context"
    )
    for question in questions:
        brief = question.changed(**BRIEF)
        plans = ask(brief.capacity())
        for plan in plans.body.get("plans", ()):
            if not plan["feasible"]:
                continue
            here = brief.changed(batch=plan["batch"], context=brief.decode_context)
            priced = ask(here.predict(plan["draft_tokens"]))
            for row in _rows(priced).values():
                lines = [plans.line, priced.line]
                emitted = plan["requests_per_s_per_replica"] * brief.output_tokens
                relation.equal(
                    "tokens per step", plan["tokens_per_step"], row["tokens_per_step"], lines
                )
                _assert_little_less(relation, emitted, row, lines)
    relation.holds(least=len(questions) // 2)


@pytest.mark.questions(40)
def test_a_search_with_one_value_on_every_axis_is_the_answer_there(questions):
    """Under a load of hardly any prompt the only design is as fast as `predict` says of its
    batch."""
    relation = Relation(
        "a pinned `--search full` emits the tokens that `predict` says at its batch and context"
    )
    for question in questions:
        brief = question.changed(**BRIEF)
        searched = ask(brief.full())
        for key in ("choices", "alternatives"):
            for design in searched.body.get(key, ()):
                here = brief.changed(batch=design["batch"], context=design["context"])
                priced = ask(here.predict(design["draft_tokens"]))
                for row in _rows(priced).values():
                    lines = [searched.line, priced.line]
                    relation.equal(
                        "tokens per step", design["tokens_per_step"], row["tokens_per_step"], lines
                    )
                    _assert_little_less(relation, design["tokens_per_s"], row, lines)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_a_search_with_one_value_on_every_axis_refuses_what_optimize_refuses(questions):
    relation = Relation("a pinned `--search full` ends with 2 where `optimize` does")
    for question in questions:
        searched, best = ask(question.full()), ask(question.optimize())
        relation.equal(
            "bad input", searched.code == REFUSED, best.code == REFUSED, [searched.line, best.line]
        )
    relation.holds(least=len(questions))


@pytest.mark.questions(30)
def test_a_steady_simulation_steps_as_predict_says(questions):
    """Requests that begin together and draft nothing decode in step, while their contexts grow with
    their outputs."""
    relation = Relation(
        "the mean time per token of so many users is the step of `predict`, averaged over contexts"
    )
    for question in questions:
        brief = question.changed(batch=min(question.batch, 64), prompt_tokens=16, output_tokens=400)
        run = ask(brief.simulate(drafts=False, places=64, users=brief.batch, count=brief.batch))
        grown = ",".join(str(16 + 400 * part // 16) for part in range(1, 16, 2))
        priced = ask(brief.changed(context=grown).predict(0))
        rows = [row for row in priced.body.get("predictions", ()) if row["feasible"]]
        if len(rows) == 8 and run.code == 0:
            steps = [row["step_s"] for row in rows]
            # simulations look up every 64th context and interpolate: half of what 64 tokens cost,
            # where that is a stair
            stair = (
                0.5
                * TABLED_TOKENS
                * (steps[-1] - steps[0])
                / (rows[-1]["context"] - rows[0]["context"])
            )
            mean, step_s = run.body["metrics"]["tpot_s"]["mean"], math.fsum(steps) / len(steps)
            within = STEADY + stair / step_s
            relation.equal("time per token", mean, step_s, [run.line, priced.line], rel=within)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(30)
def test_a_steady_simulation_drafts_as_predict_says(questions):
    """One request at a time decodes alone, so that steps and accepted tokens are those of the law
    but for the draws."""
    relation = Relation(
        "one user's tokens arrive at the rate that `predict` says, within the draws' error"
    )
    for question in questions:
        brief = question.changed(batch=1, prompt_tokens=16, output_tokens=800)
        run = ask(brief.simulate(users=1, count=8))
        priced = ask(brief.changed(context=brief.decode_context).predict(brief.draft_tokens))
        for row in _rows(priced).values():
            lines = [run.line, priced.line]
            relation.equal("exit code", run.code, 0, lines)
            if run.code:
                continue
            metrics, K = run.body["metrics"], brief.draft_tokens
            # four standard errors of a mean of steps whose emitted tokens lie in 1..K+1, spread
            # over K/2 at most
            error = 4.0 * (K / 2.0) / row["tokens_per_step"] / metrics["steps"] ** 0.5
            relation.equal(
                "tokens per step",
                metrics["tokens_per_step"],
                row["tokens_per_step"],
                lines,
                rel=error,
            )
            per_token = row["step_s"] / row["tokens_per_step"]
            relation.equal("TPOT", metrics["tpot_s"]["mean"], per_token, lines, rel=error + STEADY)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(30)
def test_without_queueing_capacity_and_simulation_have_one_time_to_first_token(questions):
    """At a thousandth of what a replica serves hardly anybody waits, and nobody's prompt meets
    another's."""
    relation = Relation("where nobody queues, a simulated TTFT is that of `capacity`")
    for question in questions:
        plans = ask(question.capacity())
        for plan in plans.body.get("plans", ()):
            if plan["feasible"] and plan["draft_tokens"] == 0:
                rate = float(f"{1e-3 / (question.output_tokens * plan['tpot_s']):.3g}")
                quiet = question.changed(requests_per_s=rate)
                calm = ask(quiet.capacity())
                run = ask(quiet.simulate(drafts=False, rate=rate, count=12))
                lines = [calm.line, run.line]
                relation.equal("exit codes", [calm.code, run.code], [0, 0], lines)
                if calm.code == run.code == 0:
                    law, seen = (
                        calm.body["plans"][0]["ttft_s"],
                        run.body["metrics"]["ttft_s"]["p50"],
                    )
                    relation.equal("TTFT", law, seen, lines, rel=SPLIT)
    relation.holds(least=len(questions) // 3)
