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
# What may die in mid-run without an answer changing; each once per round.
VICTIMS = ("decode/0/rank/1", "transfer/0", "scheduler/0")


def load_sessions():
    """The first lines of every evaluation file in turns, so that all kinds of answer are there."""
    files = []
    for name in sorted(os.listdir(EVALUATION)):
        if name.endswith(".jsonl"):
            with open(os.path.join(EVALUATION, name), encoding="utf-8") as file:
                files.append([json.loads(line) for line in file])
    rows = [rows[i] for i in range(max(map(len, files))) for rows in files if i < len(rows)]
    return rows[:SESSIONS]


async def answer(client, model, session, started=None):
    """Streams one session: reasoning, content, calls, finish reason, and its logprobs' tokens."""
    text, calls, finish = "", {}, None
    stream = await client.chat.completions.create(
        model=model, messages=session["messages"], tools=session["tools"] or openai.NOT_GIVEN,
        stream=True, max_tokens=200, extra_body={"thinking": session["mode"] == "thinking"})
    async for chunk in stream:
        if started is not None:
            started.set()
        for choice in chunk.choices:
            delta = choice.delta
            text += (getattr(delta, "reasoning_content", None) or "") + (delta.content or "")
            for call in delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (call.function.name or ""),
                                     arguments + (call.function.arguments or ""))
            finish = choice.finish_reason or finish
    return text, sorted(calls.items()), finish


async def answer_all(client, model, sessions, deployment=None, victim=None):
    """All at once; the victim is killed as soon as a first token is out."""
    started = asyncio.Event()
    tasks = [asyncio.create_task(answer(client, model, session, started)) for session in sessions]
    if victim:
        await started.wait()
        os.kill(deployment.pid(victim), signal.SIGKILL)
    return await asyncio.gather(*tasks)


class Sessions(unittest.TestCase):
    def test_at_once_as_alone_whatever_dies(self):
        sessions = load_sessions()
        self.assertEqual(len(sessions), SESSIONS)
        with Deployment(TOPOLOGY) as deployment:
            asyncio.run(self.compare(deployment, sessions))

    async def compare(self, deployment, sessions):
        # While a group comes back, new requests get 429 with Retry-After, which the client heeds.
        client = openai.AsyncOpenAI(base_url=deployment.url + "/v1", api_key="none", timeout=300,
                                    max_retries=20)
        model = (await client.models.list()).data[0].id
        alone = [await answer(client, model, session) for session in sessions]
        self.assertTrue(all(finish for _, _, finish in alone))
        for victim in (None, *VICTIMS):
            before = deployment.pid(victim) if victim else None
            together = await answer_all(client, model, sessions, deployment, victim)
            for session, one, other in zip(sessions, alone, together):
                self.assertEqual(other, one, f"{session['id']} with {victim} killed")
            if victim:
                self.assertNotEqual(deployment.pid(victim), before)
        await client.close()


if __name__ == "__main__":
    unittest.main()
