"""Every sampling parameter at its extremes, with prompts of one token, half the context and all but
one of it, run and found in the prefix cache: each is answered, and no group reforms."""
import json
import os
import unittest
import urllib.error
import urllib.request

from deployment import Deployment

EXTREMES = [
    {"temperature": 0}, {"temperature": 2, "seed": 2 ** 53 - 1}, {"temperature": 1e-40},
    {"top_p": 1e-30}, {"min_p": 1}, {"top_k": 1}, {"top_k": -1},
    {"presence_penalty": 2}, {"presence_penalty": -2},
    {"frequency_penalty": 2}, {"frequency_penalty": -2},
    {"repetition_penalty": 10}, {"repetition_penalty": 0.01},
    {"logprobs": 20}, {"logit_bias": {str(i): (-1) ** i * 100 for i in range(300)}},
    {"stop_token_ids": list(range(16))}, {"stop": ["\x01" * 256] * 16},
]
ALL = {"temperature": 2, "top_p": 0.01, "min_p": 0.5, "top_k": 3, "presence_penalty": 2,
       "frequency_penalty": -2, "repetition_penalty": 10, "logprobs": 20,
       "logit_bias": {str(i): 100 for i in range(300)},
       "stop_token_ids": list(range(16)), "seed": -1}


def topology(context, chunk):
    pages = 2 * (context // 256) + 16
    return f"""lockstep: 1
model: {os.path.abspath("model/tiny")}
hosts: [{{name: local, devices: 2, device_memory: 8GB}}]
limits: {{context_tokens: {context}}}
prefill: [{{pages: {pages}, slots: 4, chunk_tokens: {chunk}}}]
decode: [{{pages: {pages}, slots: 4, chunk_tokens: {chunk}}}]
"""


class Lengths(unittest.TestCase):
    def ask(self, deployment, prompt_tokens, parameters, answer_tokens=1):
        body = {"model": "tiny", "prompt": [300 + i % 97 for i in range(prompt_tokens)],
                "max_tokens": answer_tokens, "ignore_eos": True, **parameters}
        request = urllib.request.Request(
            deployment.url + "/v1/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            self.fail(f"{prompt_tokens} tokens, {parameters}: {error.code} {error.read()[:500]}")

    def ask_all(self, context, chunk, parameters):
        with Deployment(topology(context, chunk)) as deployment:
            for length in (1, context // 2, context - 1):
                for one in parameters:
                    # an answer as long as there is room for, up to four: more than one is decode's
                    room = min(4, context - length)
                    answers = [self.ask(deployment, length, one, room) for _ in range(2)]
                    for answer in answers:
                        self.assertEqual(answer["usage"]["prompt_tokens"], length)
                    details = answers[1]["usage"]["prompt_tokens_details"]
                    if length % 256 and length > 256:
                        self.assertGreater(details["cached_tokens"], 0)
                    if one.get("temperature") == 0:
                        self.assertEqual(*(answer["choices"] for answer in answers))
            log = deployment.log()
        self.assertNotIn("GROUP-REFORM", log)
        self.assertNotIn("ASSERT", log)

    def test_a_small_context_on_the_cpu(self):
        self.ask_all(1024, 256, [{"temperature": 0, **one} for one in EXTREMES] + [ALL])

    def test_a_context_of_a_million_tokens(self):
        os.environ["LOCKSTEP_DEVICE"] = "symbolic"
        self.addCleanup(os.environ.pop, "LOCKSTEP_DEVICE")
        self.ask_all(1 << 20, 65536, [{"temperature": 0, "repetition_penalty": 10}, ALL])


if __name__ == "__main__":
    unittest.main()
