"""Answers in their order: more of something good is never worse, and what was chosen is the best of
what there was.

Questions are random, as in `test_doors_agree`; a failure names both command lines and both numbers.
"""

import itertools

import pytest

from hardware_profiles.loader import load_device
from tests.agreement.doors import INFEASIBLE, Relation, ask

pytestmark = pytest.mark.heavy

LENGTHS = "0,1,2,3,5,8"
DRAWN = 0.02
"""Of a mean over 120 requests, which meet others on one replica than on two."""
TIE = 1e-6
"""Of a time: a bisection and sums in another order; smaller than anything that a reader sees."""


def _priced(said):
    return {
        (row["batch"], row["context"], row["draft_tokens"]): row
        for row in said.body.get("predictions", ())
        if row["feasible"]
    }


def _assert_never_worse(relation, worse, better, names=("tokens_per_s",)):
    """Row by row, a price of the better deployment is at least that of the worse one."""
    few, more = ask(worse), ask(better)
    lines = [few.line, more.line]
    rows = _priced(more)
    for at, row in _priced(few).items():
        relation.equal("fits", at in rows, True, lines)
        for name in names if at in rows else ():
            relation.at_most(
                f"{name} at batch, context, K {at}", row[name], rows[at][name], lines, rel=TIE
            )


@pytest.mark.questions(40)
@pytest.mark.parametrize("key", ["bandwidth_bytes_per_s", "memory_bytes", "link_bytes_per_s"])
def test_a_better_device_is_never_slower(questions, key):
    relation = Relation(f"half as much again of `{key}` never costs tokens per second")
    for question in questions:
        if not getattr(load_device(question.device), key):
            continue
        best = question.with_number(key, 1.5)
        _assert_never_worse(relation, question.predict(LENGTHS), best.predict(LENGTHS))
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_a_higher_peak_is_never_slower(questions):
    relation = Relation("half as much again of every peak never costs tokens per second")
    for question in questions:
        best = question
        for dtype in load_device(question.device).peak_flops_per_s:
            best = best.with_number(f"peak_flops_per_s.{dtype}", 1.5)
        _assert_never_worse(relation, question.predict(LENGTHS), best.predict(LENGTHS))
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(60)
def test_more_acceptance_is_never_worse(questions):
    relation = Relation(
        "a higher acceptance never costs tokens per step, tokens per second or speedup"
    )
    for question in questions:
        best = question.changed(
            acceptance=round(question.acceptance + (1.0 - question.acceptance) / 3.0, 3)
        )
        names = ("tokens_per_step", "tokens_per_s", "speedup")
        _assert_never_worse(relation, question.predict(LENGTHS), best.predict(LENGTHS), names)
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_more_acceptance_never_needs_more_replicas(questions):
    relation = Relation("a higher acceptance never needs more replicas")
    for question in questions:
        best = question.changed(
            acceptance=round(question.acceptance + (1.0 - question.acceptance) / 3.0, 3)
        )
        few, more = ask(question.capacity()), ask(best.capacity())
        _assert_no_more(relation, few, more, "replicas")
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(60)
def test_more_rows_never_cost_less(questions):
    """A kernel can be run over padded rows: a pass over n rows costs at most what one over more
    rows does."""
    relation = Relation("a pass over more rows costs at least what one over fewer rows does")
    for question in questions:
        batches = sorted(
            {question.batch + more for more in (0, 1, 2, 3, 5, 9)} | {question.batch * 2}
        )
        said = ask(question.changed(batch=",".join(map(str, batches)), engine="none").predict(0))
        _assert_grows(relation, said, "batch")
    relation.holds(least=len(questions))


@pytest.mark.questions(60)
def test_more_rows_of_a_draft_never_cost_less_to_verify(questions):
    relation = Relation("verifying a longer chain costs at least what verifying a shorter one does")
    for question in questions:
        said = ask(
            question.changed(method="n-gram", draft=None, match_rate=None).predict(
                "0,1,2,3,4,5,6,7,8"
            )
        )
        rows = sorted(_priced(said).values(), key=lambda row: row["draft_tokens"])
        for few, more in itertools.pairwise(rows):
            name = f"verify_s of K={few['draft_tokens']} and {more['draft_tokens']}"
            relation.at_most(
                name,
                few["breakdown_s"]["verify"],
                more["breakdown_s"]["verify"],
                [said.line],
                rel=TIE,
            )
    relation.holds(least=len(questions))


@pytest.mark.questions(60)
def test_a_longer_context_never_costs_less(questions):
    relation = Relation("a longer context costs at least what a shorter one does")
    for question in questions:
        said = ask(
            question.changed(context="0,16,100,128,500,1024,2000,4096,10000,32768").predict(0)
        )
        _assert_grows(relation, said, "context")
    relation.holds(least=len(questions))


def _assert_grows(relation, said, name):
    rows = sorted(_priced(said).values(), key=lambda row: row[name])
    for few, more in itertools.pairwise(rows):
        what = f"step_s at {name} {few[name]} and {more[name]}"
        relation.at_most(what, few["step_s"], more["step_s"], [said.line], rel=TIE)


@pytest.mark.questions(40)
def test_narrower_weights_are_never_slower_where_memory_bounds_a_step(questions):
    """One request decodes at the pace at which its weights are read; a device without a format is
    no part of this."""
    relation = Relation("narrower weights never slow down a step of one request")
    for question in questions:
        alone = question.changed(batch=1, engine="none")
        said = [
            (dtype, ask(alone.changed(dtype=dtype).predict(0))) for dtype in ("bf16", "fp8", "int4")
        ]
        steps = [
            (dtype, answer.line, row) for dtype, answer in said for row in _priced(answer).values()
        ]
        for (wide, first, slow), (narrow, second, fast) in itertools.pairwise(steps):
            if slow["limit"] == "bandwidth":
                relation.at_most(
                    f"step_s {narrow}, {wide}",
                    fast["step_s"],
                    slow["step_s"],
                    [second, first],
                    rel=TIE,
                )
    relation.holds(least=len(questions) // 4)


@pytest.mark.questions(40)
def test_narrower_weights_never_need_more_memory(questions):
    relation = Relation(
        "narrower weights never need more memory, nor leave room for fewer requests"
    )
    for question in questions:
        said = [
            (dtype, ask(question.changed(dtype=dtype).capacity()))
            for dtype in ("bf16", "fp8", "int4")
        ]
        plans = [
            (d, a.line, p) for d, a in said for p in a.body.get("plans", ())[:1] if p["feasible"]
        ]
        for (wide, first, much), (narrow, second, little) in itertools.pairwise(plans):
            lines, (more, less) = [second, first], (much["memory"], little["memory"])
            relation.at_most(
                f"weights {narrow}, {wide}", less["weight_bytes"], more["weight_bytes"], lines
            )
            relation.at_most(
                f"largest batch {wide}, {narrow}",
                more["largest_batch"],
                less["largest_batch"],
                lines,
            )
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(60)
def test_a_choice_is_at_least_as_good_as_everything_that_was_tried(questions):
    relation = Relation(
        "what `optimize` chooses is at least as fast as everything that it compared"
    )
    for question in questions:
        best, priced = ask(question.optimize("1,2,3,5,8")), ask(question.predict(LENGTHS))
        lines = [best.line, priced.line]
        for choice in best.body.get("choices", ()):
            others = [*best.body["alternatives"], *_priced(priced).values()]
            (here,) = best.body["cells"]
            others += [beside for beside in here["neighbours"] if beside["barred"] is None]
            for other in others:
                name = f"tokens/s of K={other['draft_tokens']}"
                relation.at_most(
                    name, other["tokens_per_s"], choice["tokens_per_s"], lines, rel=TIE
                )
    relation.holds(least=len(questions))


@pytest.mark.questions(30)
def test_a_searched_design_is_at_least_as_good_as_everything_that_was_tried(questions):
    relation = Relation(
        "the design that `--search full` names first is the best of those that it shows"
    )
    for question in questions:
        searched = ask(question.full(**{"batch-caps": "4,16,64", "draft-tokens": "1,3,5"}))
        for design in searched.body.get("choices", ()):
            for other in (*searched.body["alternatives"], *searched.body["front"]):
                if other["meets_limits"]:
                    relation.at_most(
                        "objective",
                        other["objective"],
                        design["objective"],
                        [searched.line],
                        rel=TIE,
                    )
    relation.holds(least=len(questions) // 2)


@pytest.mark.questions(30)
def test_one_value_of_an_axis_is_never_better_than_all_of_them(questions):
    relation = Relation("a search over several values is at least as good as one over one of them")
    for question in questions:
        every = ask(question.full(**{"batch-caps": "4,16,64", "draft-tokens": "1,3,5"}))
        for axis, values in (("batch-caps", ("4", "64")), ("draft-tokens", ("1", "5"))):
            for value in values:
                one = {"batch-caps": "4,16,64", "draft-tokens": "1,3,5"} | {axis: value}
                single = ask(question.full(**one))
                if single.code == every.code == 0:
                    low, high = (said.body["choices"][0]["objective"] for said in (single, every))
                    relation.at_most("objective", low, high, [single.line, every.line], rel=TIE)
                elif single.code == 0:
                    relation.equal("exit code", every.code, 0, [single.line, every.line])
    relation.holds(least=len(questions))


@pytest.mark.questions(40)
def test_a_tighter_limit_is_never_faster(questions):
    relation = Relation(
        "a tighter limit never gives more tokens per second, nor an answer where a looser one has"
        " none"
    )
    for question in questions:
        free = ask(question.optimize("1,3,5"))
        for choice in free.body.get("choices", ()):
            per_token = choice["step_s"] / choice["tokens_per_step"] * 1e3
            limits = [None, *(f"{per_token * ratio:.6g}" for ratio in (1.1, 0.9, 0.5))]
            said = [ask(question.optimize("1,3,5", **{"slo-tpot": limit})) for limit in limits]
            for loose, tight in itertools.pairwise(said):
                _assert_no_faster(relation, loose, tight)
    relation.holds(least=len(questions))


def _assert_no_faster(relation, loose, tight):
    lines = [tight.line, loose.line]
    if tight.code == 0:
        relation.equal("exit code", loose.code, 0, lines)
        rates = [
            said.body["choices"][0]["tokens_per_s"] for said in (tight, loose) if said.code == 0
        ]
        relation.at_most("tokens/s", rates[0], rates[-1], lines, rel=TIE)
    elif loose.code == 0:
        relation.equal("exit code", tight.code, INFEASIBLE, lines)


def _assert_no_more(relation, much, little, *names):
    """Plans of the second answer need no more than those of the first, and there are as many of
    them."""
    lines = [much.line, little.line]
    rows = {
        (row["tp"], row["method"]): row for row in little.body.get("plans", ()) if row["feasible"]
    }
    for row in much.body.get("plans", ()):
        if row["feasible"]:
            here = rows.get((row["tp"], row["method"]))
            relation.equal(f"{row['method']} has a plan", here is not None, True, lines)
            for name in names if here is not None else ():
                relation.at_most(
                    f"{name} of {row['method']}", here[name], row[name], lines[::-1], rel=TIE
                )


@pytest.mark.questions(15)
def test_a_looser_limit_never_needs_more_replicas(questions):
    relation = Relation("a looser limit never needs more replicas, nor takes a plan away")
    for question in questions:
        free = ask(question.capacity())
        for plan in free.body.get("plans", ())[:1]:
            if plan["feasible"]:
                for option, key in (("slo-ttft", "ttft_s"), ("slo-tpot", "tpot_s")):
                    limits = [f"{plan[key] * 1e3 * ratio:.6g}" for ratio in (0.7, 1.3, 3.0)]
                    said = [ask(question.capacity(**{option: limit})) for limit in limits]
                    for tight, loose in itertools.pairwise([*said, free]):
                        _assert_no_more(relation, tight, loose, "replicas")
    relation.holds(least=len(questions))


@pytest.mark.questions(15)
def test_a_smaller_load_never_needs_more_replicas(questions):
    relation = Relation(
        "a smaller load never needs more replicas, nor has no plan where a greater one has one"
    )
    for question in questions:
        free = ask(question.capacity())
        for plan in free.body.get("plans", ())[:1]:
            if plan["feasible"]:
                limit = {"slo-ttft": f"{plan['ttft_s'] * 1.3e3:.6g}"}
                rates = [question.requests_per_s * ratio for ratio in (10.0, 1.0, 0.1, 0.01)]
                said = [
                    ask(question.changed(requests_per_s=rate).capacity(**limit)) for rate in rates
                ]
                for much, little in itertools.pairwise(said):
                    _assert_no_more(relation, much, little, "replicas")
    relation.holds(least=len(questions) // 3)


@pytest.mark.questions(40)
def test_a_cheapest_plan_is_at_least_as_cheap_as_the_others(questions):
    relation = Relation(
        "the plan that `capacity` calls best is the cheapest of those that it shows"
    )
    for question in questions:
        said = ask(question.capacity(tp=f"{question.tp},{min(2 * question.tp, 16)}"))
        best, plans = (
            said.body.get("best"),
            [row for row in said.body.get("plans", ()) if row["feasible"]],
        )
        for plan in plans if best is not None else ():
            named = [
                p
                for p in plans
                if all(p[key] == best[key] for key in ("tp", "method", "draft_tokens"))
            ]
            relation.equal("plans of the best one's name", len(named), 1, [said.line])
            relation.at_most(best["by"], named[0][best["by"]], plan[best["by"]], [said.line])
    relation.holds(least=len(questions))


@pytest.mark.questions(25)
def test_a_full_search_is_no_dearer_than_the_plan_of_one_of_its_designs(questions):
    relation = Relation("`capacity --search full` is at most as dear as the plan that is named")
    for question in questions:
        plain = {"draft-tokens": question.draft_tokens, "method": question.method}
        named = ask(question.capacity(**plain))
        searched = ask(question.changed(tp=1).capacity(**plain, search="full", devices=64, tp=None))
        plans = [
            row
            for row in named.body.get("plans", ())
            if row["feasible"] and row["usd_per_hour"] is not None
        ]
        if not plans or min(plan["devices"] for plan in plans) > 64:
            continue
        lines = [searched.line, named.line]
        relation.equal("exit code", searched.code, 0, lines)
        if searched.code == 0:
            (least,) = [
                min(row["usd_per_hour"] for row in searched.body["plans"] if row["feasible"])
            ]
            cheapest = min(plan["usd_per_hour"] for plan in plans)
            relation.at_most("usd_per_hour", least, cheapest, lines, rel=TIE)
    relation.holds(least=len(questions) // 4)


@pytest.mark.questions(20)
def test_more_devices_are_never_worse(questions):
    relation = Relation("`--search full` with more devices is at least as good")
    for question in questions:
        said = [
            ask(question.full(layouts=None, devices=count))
            for count in (question.tp, 2 * question.tp)
        ]
        few, more = said
        if few.code == 0:
            lines = [few.line, more.line]
            relation.equal("exit code", more.code, 0, lines)
            if more.code == 0:
                low, high = (answer.body["choices"][0]["objective"] for answer in (few, more))
                relation.at_most("objective", low, high, lines, rel=TIE)
    relation.holds(least=len(questions) // 2)


@pytest.mark.questions(20)
def test_more_replicas_are_never_slower(questions):
    """The same requests over one replica and over two: fewer meet on each, so that they leave
    sooner.

    One of the parts of their stay can grow: who waited for a place may now decode beside others.
    """
    relation = Relation(
        "a second replica never lengthens the mean time from arrival to the last token"
    )
    for question in questions:
        plans = ask(question.capacity())
        for plan in plans.body.get("plans", ())[:1]:
            if plan["feasible"]:
                rate = f"{0.7 * plan['requests_per_s_per_replica']:.4g}"
                runs = [
                    ask(question.simulate(drafts=False, rate=rate, count=120, replicas=count))
                    for count in (1, 2)
                ]
                one, two = runs
                lines = [two.line, one.line]
                relation.equal("exit codes", [one.code, two.code], [0, 0], lines)
                if one.code == two.code == 0:
                    few, more = (run.body["metrics"]["e2e_s"]["mean"] for run in runs)
                    relation.at_most("e2e_s", more, few, lines, rel=DRAWN)
    relation.holds(least=len(questions) // 2)


@pytest.mark.questions(30)
def test_simulated_times_to_first_token_are_at_least_those_of_a_prompt_alone(questions):
    relation = Relation("a simulated TTFT is at least that of a prompt that meets nobody")
    for question in questions:
        alone = ask(question.simulate(drafts=False, users=1, count=1))
        for users in (2, 8):
            run = ask(question.simulate(drafts=False, users=users, count=3 * users))
            if alone.code == run.code == 0:
                low, high = (said.body["metrics"]["ttft_s"]["mean"] for said in (alone, run))
                relation.at_most("TTFT", low, high, [alone.line, run.line], rel=TIE)
    relation.holds(least=len(questions) // 2)


@pytest.mark.questions(30)
def test_simulated_tokens_take_at_least_a_step_of_one_request(questions):
    relation = Relation(
        "a simulated TPOT is at least the step that `predict` says of one request at its shortest"
    )
    for question in questions:
        run = ask(question.simulate(drafts=False, users=8, count=24))
        priced = ask(question.changed(batch=1, context=question.prompt_tokens).predict(0))
        for row in _priced(priced).values() if run.code == 0 else ():
            lines = [priced.line, run.line]
            relation.at_most(
                "TPOT", row["step_s"], run.body["metrics"]["tpot_s"]["mean"], lines, rel=0.01
            )
    relation.holds(least=len(questions) // 2)
