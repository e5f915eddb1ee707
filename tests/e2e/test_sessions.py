"""64 sessions at once on eight ranks say what each says alone, also while actors are killed."""
import asyncio
import json
import os
import signal
import unittest

import openai

from deployment import Deployment

TOPOLOGY = "topology/examples/8-devices.yaml"
EVALUATION = "tests/golden/tiny_eval"
SESSIONS = 64
TOKENS_MAX = 48
# Who dies when so many of all tokens are out: first hand-overs run, then replays look for a route.
VICTIMS = (("transfer/0", 0.05), ("decode/0/rank/1", 0.3), ("scheduler/0", 0.35))


def load_sessions():
    """The first lines of every evaluation file in turns, so that all kinds of answer are there."""
    files = []
    for name in sorted(os.listdir(EVALUATION)):
        if name.endswith(".jsonl"):
            with open(os.path.join(EVALUATION, name), encoding="utf-8") as file:
                files.append([json.loads(line) for line in file])
    rows = [rows[i] for i in range(max(map(len, files))) for rows in files if i < len(rows)]
    return rows[:SESSIONS]


class Progress:
    """Counts tokens over all sessions and kills each victim when its share of them is out."""

    def __init__(self, deployment, total, victims):
        self.deployment, self.total, self.tokens = deployment, total, 0
        self.due = list(victims)
        self.pids = {victim: deployment.pid(victim) for victim, _ in victims}

    def count(self):
        self.tokens += 1
        while self.due and self.tokens >= self.due[0][1] * self.total:
            os.kill(self.pids[self.due.pop(0)[0]], signal.SIGKILL)


async def answer(client, model, session, turn, progress=None):
    """One session, streamed: its tokens with their logprobs, all text, calls, and how it ended."""
    tokens, text, calls, finish = [], "", {}, None
    sampling = {"temperature": 1.0, "seed": turn} if turn % 4 == 3 else {"temperature": 0}
    stream = await client.chat.completions.create(
        model=model, messages=session["messages"], tools=session["tools"] or openai.NOT_GIVEN,
        stream=True, max_tokens=TOKENS_MAX, logprobs=True, **sampling,
        extra_body={"thinking": session["mode"] == "thinking"})
    async for chunk in stream:
        for choice in chunk.choices:
            delta = choice.delta
            text += (getattr(delta, "reasoning_content", None) or "") + (delta.content or "")
            for call in delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (call.function.name or ""),
                                     arguments + (call.function.arguments or ""))
            for token in choice.logprobs.content if choice.logprobs else []:
                tokens.append((token.token, token.logprob))
                if progress:
                    progress.count()
            finish = choice.finish_reason or finish
    return tokens, text, sorted(calls.items()), finish


class Sessions(unittest.TestCase):
    def test_at_once_as_alone_whatever_dies(self):
        sessions = load_sessions()
        self.assertEqual(len(sessions), SESSIONS)
        with Deployment(TOPOLOGY) as deployment:
            asyncio.run(self.compare(deployment, sessions))
            said = deployment.log()
            self.assertNotIn("TOKEN-DIFFERS", said)
            for victim, _ in VICTIMS:
                self.assertEqual(said.count(f"SUPERVISOR-EXITED actor={victim} "), 1)

    async def compare(self, deployment, sessions):
        # While a group comes back, new requests get 429 with Retry-After, which the client heeds.
        client = openai.AsyncOpenAI(base_url=deployment.url + "/v1", api_key="none", timeout=300,
                                    max_retries=20)
        model = (await client.models.list()).data[0].id
        alone = [await answer(client, model, session, turn)
                 for turn, session in enumerate(sessions)]
        self.assertTrue(all(finish and tokens for tokens, _, _, finish in alone))
        total = sum(len(tokens) for tokens, *_ in alone)
        for victims in ((), VICTIMS):
            progress = Progress(deployment, total, victims)
            together = await asyncio.gather(*[answer(client, model, session, turn, progress)
                                              for turn, session in enumerate(sessions)])
            for session, one, other in zip(sessions, alone, together):
                self.assertEqual(other, one, f"{session['id']} with {victims} killed")
            for victim, pid in progress.pids.items():
                deployment.await_new_life(victim, pid)
        await client.close()


if __name__ == "__main__":
    unittest.main()
