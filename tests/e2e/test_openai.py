"""The official OpenAI client against the default deployment: the tiny model, greedily."""
import json
import os
import unittest
import urllib.request

import openai

from deployment import Deployment, await_true

TOPOLOGY = os.environ.get("LOCKSTEP_TOPOLOGY", "topology/examples/default.yaml")
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}


def setUpModule():
    global deployment, client, model
    deployment = unittest.enterModuleContext(Deployment(TOPOLOGY))
    client = openai.OpenAI(base_url=deployment.url + "/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id


def ask(content, **options):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return client.chat.completions.create(model=model, messages=messages, **options)


def open_requests():
    return deployment.metrics()["lockstep_requests_open"]


class Answers(unittest.TestCase):
    def test_a_plain_answer_with_usage(self):
        answer = ask("What is 4 times 2?")
        choice = answer.choices[0]
        self.assertEqual(choice.message.content, "4 * 2 = 8.")
        self.assertEqual(choice.message.role, "assistant")
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, model)
        self.assertGreater(answer.usage.prompt_tokens, 5)
        self.assertGreater(answer.usage.completion_tokens, 5)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_a_stream_joins_to_the_same_answer(self):
        whole = ask("What is Lockstep?")
        chunks = list(ask("What is Lockstep?", stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertGreater(len(chunks), 5)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual({chunk.id for chunk in chunks}, {chunks[0].id})
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))

    def test_without_include_usage_no_chunk_has_usage(self):
        chunks = list(ask("Hi", stream=True))
        self.assertTrue(all(chunk.usage is None and chunk.choices for chunk in chunks))

    def test_a_tool_call_and_its_result(self):
        first = ask("What is the weather in Paris?", tools=[WEATHER])
        choice = first.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual(len(choice.message.tool_calls), 1)
        call = choice.message.tool_calls[0]
        self.assertEqual((call.type, call.function.name), ("function", "get_weather"))
        self.assertEqual(json.loads(call.function.arguments), {"city": "Paris"})
        self.assertNotIn("DSML", choice.message.content or "")
        second = ask([{"role": "user", "content": "What is the weather in Paris?"},
                      choice.message.model_dump(exclude_none=True),
                      {"role": "tool", "tool_call_id": call.id, "content": '{"temp": 21}'}],
                     tools=[WEATHER])
        self.assertEqual(second.choices[0].finish_reason, "stop")
        self.assertIn("21", second.choices[0].message.content)

    def test_a_streamed_tool_call_is_the_same(self):
        names, arguments, ids, finish = [], "", [], None
        for chunk in ask("What is the weather in Paris?", tools=[WEATHER], stream=True):
            choice = chunk.choices[0]
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                self.assertEqual(call.index, 0)
                names += [call.function.name] if call.function.name else []
                ids += [call.id] if call.id else []
                arguments += call.function.arguments or ""
            self.assertNotIn("DSML", choice.delta.content or "")
        self.assertEqual((names, len(ids), finish), (["get_weather"], 1, "tool_calls"))
        self.assertEqual(json.loads(arguments), {"city": "Paris"})

    def test_tool_choice_none_offers_no_tool(self):
        answer = ask("What is the weather in Paris?", tools=[WEATHER], tool_choice="none")
        self.assertIsNone(answer.choices[0].message.tool_calls)
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_logprobs_are_those_of_the_tokens(self):
        answer = ask("What is 4 times 2?", logprobs=True, top_logprobs=3)
        tokens = answer.choices[0].logprobs.content
        self.assertEqual("".join(token.token for token in tokens), "4 * 2 = 8.")
        for token in tokens:
            self.assertEqual(bytes(token.bytes).decode(), token.token)
            self.assertLessEqual(token.logprob, 0)
            tops = [top.logprob for top in token.top_logprobs]
            self.assertEqual(len(tops), 3)
            self.assertEqual(tops, sorted(tops, reverse=True))
            self.assertEqual(token.top_logprobs[0].token, token.token)  # greedy
            self.assertAlmostEqual(token.top_logprobs[0].logprob, token.logprob, places=5)

    def test_max_tokens_ends_with_length(self):
        for name in ("max_tokens", "max_completion_tokens"):
            answer = ask("What is Lockstep?", **{name: 3})
            self.assertEqual(answer.choices[0].finish_reason, "length")
            self.assertEqual(answer.usage.completion_tokens, 3)

    def test_a_stop_string_ends_and_is_not_shown(self):
        answer = ask("What is 4 times 2?", stop=[" ="])
        self.assertEqual(answer.choices[0].message.content, "4 * 2")
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_a_seed_gives_the_same_answer_again(self):
        def draw(seed):
            answer = ask("Tell me about a quiet garden.", temperature=2, seed=seed, max_tokens=40)
            return answer.choices[0].message.content

        self.assertEqual(draw(7), draw(7))
        self.assertGreater(len({draw(seed) for seed in range(5)}), 1)

    def test_a_text_completion(self):
        answer = client.completions.create(model=model, prompt="What is", max_tokens=4)
        self.assertEqual(answer.object, "text_completion")
        self.assertEqual(answer.usage.completion_tokens, 4)
        stream = client.completions.create(model=model, prompt="What is", max_tokens=4, stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in stream if chunk.choices),
                         answer.choices[0].text)

    def test_a_prompt_of_ids_is_taken_as_it_is(self):
        def complete(prompt):
            answer = client.completions.create(model=model, prompt=prompt, max_tokens=6, logprobs=2)
            return answer.choices[0], answer.usage.prompt_tokens

        with open("tests/golden/tiny_eval/count.jsonl", encoding="utf-8") as file:
            row = json.loads(file.readline())
        choice, prompt_tokens = complete(row["prompt_ids"])
        self.assertEqual(prompt_tokens, len(row["prompt_ids"]))
        self.assertEqual(choice.finish_reason, "length")
        logprobs = choice.logprobs
        self.assertEqual("".join(logprobs.tokens), choice.text)
        self.assertEqual(len(logprobs.token_logprobs), 6)
        self.assertEqual(logprobs.text_offset,
                         [len("".join(logprobs.tokens[:i])) for i in range(6)])
        for token, tops in zip(logprobs.tokens, logprobs.top_logprobs):
            self.assertEqual(len(tops), 2)
            self.assertEqual(max(tops, key=tops.get), token)  # greedy
        self.assertTrue(row["output"].startswith(choice.text), choice.text)

    def test_reasoning_is_apart_from_the_answer(self):
        options = {"extra_body": {"thinking": True}}
        message = ask("What is 4 times 2?", **options).choices[0].message
        self.assertEqual(message.content, "4 * 2 = 8.")
        self.assertTrue(message.reasoning_content)
        deltas = [chunk.choices[0].delta for chunk in ask("What is 4 times 2?", stream=True,
                                                          **options)]
        self.assertEqual("".join(delta.content or "" for delta in deltas), message.content)
        self.assertEqual("".join(getattr(delta, "reasoning_content", None) or ""
                                 for delta in deltas), message.reasoning_content)

    def test_a_stream_has_the_logprobs_of_the_whole(self):
        options = {"logprobs": True, "top_logprobs": 2}
        whole = ask("What is Lockstep?", **options).choices[0].logprobs.content
        tokens = [token for chunk in ask("What is Lockstep?", stream=True, **options)
                  for token in getattr(chunk.choices[0].logprobs, "content", [])]
        self.assertEqual(tokens, whole)

    def test_a_stop_string_over_several_tokens_ends_a_stream(self):
        chunks = list(ask("What is 4 times 2?", stream=True, stop=["2 = 8", "never"]))
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "4 * ")
        self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")

    def test_a_stop_string_is_met_in_content_alone(self):
        whole = ask("What is the weather in Paris?", tools=[WEATHER], stop="Paris")
        self.assertEqual(whole.choices[0].finish_reason, "tool_calls")
        self.assertEqual(json.loads(whole.choices[0].message.tool_calls[0].function.arguments),
                         {"city": "Paris"})
        thinking = {"extra_body": {"thinking": True}}
        message = ask("What is 4 times 2?", **thinking).choices[0].message
        word = message.reasoning_content.split()[0]
        self.assertNotIn(word, message.content)
        again = ask("What is 4 times 2?", stop=word, **thinking).choices[0].message
        self.assertEqual((again.content, again.reasoning_content),
                         (message.content, message.reasoning_content))

    def test_what_stopped_an_answer_is_told(self):
        for stream in (False, True):
            answer = ask("What is 4 times 2?", stop=["no", " ="], stream=stream,
                         extra_body={"include_stop_str_in_output": True})
            choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
            text = "".join((choice.delta.content or "") if stream else choice.message.content
                           for choice in choices)
            self.assertEqual((text, choices[-1].stop_reason), ("4 * 2 =", " ="))

    def test_every_way_to_ask_for_reasoning(self):
        for body in ({"enable_thinking": True}, {"reasoning_effort": "low"},
                     {"reasoning": {"enabled": True}}, {"thinking": {"type": "adaptive"}},
                     {"chat_template_kwargs": {"enable_thinking": True}}):
            message = ask("What is 4 times 2?", extra_body=body).choices[0].message
            self.assertTrue(getattr(message, "reasoning_content", None), body)

    def test_no_model_is_the_model_and_the_best_token_needs_no_luck(self):
        body = {"messages": [{"role": "user", "content": "What is 4 times 2?"}], "top_p": 0,
                "seed": (1 << 63) - 1}
        request = urllib.request.Request(deployment.url + "/v1/chat/completions",
                                         json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertEqual(json.load(answer)["choices"][0]["message"]["content"], "4 * 2 = 8.")

    def test_a_control_token_in_the_text_stays_text(self):
        plain = ask("Say: hello", max_tokens=1).usage.prompt_tokens
        marked = ask("Say: hello<｜end▁of▁sentence｜>", max_tokens=1).usage.prompt_tokens
        self.assertGreater(marked, plain + 1)

    def test_sessions_at_once_answer_as_alone(self):
        questions = [f"What is {a} times {b}?" for a in range(1, 5) for b in range(1, 5)]
        alone = [ask(question).choices[0].message.content for question in questions]
        streams = [ask(question, stream=True) for question in questions]  # all open at once
        together = ["".join(chunk.choices[0].delta.content or "" for chunk in stream)
                    for stream in streams]
        self.assertEqual(together, alone)


class Refusals(unittest.TestCase):
    def refused(self, parameter, content="Hello", **options):
        with self.assertRaises(openai.BadRequestError) as caught:
            ask(content, **options)
        self.assertEqual(caught.exception.param, parameter, caught.exception.message)
        self.assertEqual(caught.exception.body["type"], "invalid_request_error")
        self.assertTrue(caught.exception.body["message"])

    def test_each_bad_parameter_is_named(self):
        self.refused("temperature", temperature=-1)
        self.refused("temperature", temperature=3)
        self.refused("top_p", top_p=1.5)
        self.refused("max_tokens", max_tokens=-1)
        self.refused("n", n=0)
        self.refused("top_logprobs", logprobs=True, top_logprobs=21)
        self.refused("presence_penalty", presence_penalty=9)
        self.refused("stop", stop=["x"] * 17)
        self.refused("logit_bias", logit_bias={"no number": 1})
        self.refused("tool_choice", tool_choice="required")
        self.refused("tools[0].function.name", tools=[WEATHER, WEATHER])
        self.refused("enable_thinking", extra_body={"enable_thinking": True, "thinking": False})
        self.refused("reasoning_effort", reasoning_effort="bogus")

    def test_what_cannot_be_promised_is_refused(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            self.refused("tool_choice", tools=[WEATHER], tool_choice=choice)
        self.refused("response_format", response_format={"type": "json_object"})
        self.refused("response_format", response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}})

    def test_arguments_of_the_history_are_objects(self):
        for arguments in ('{"city": "Par', "[1]", ""):
            call = {"id": "a", "type": "function",
                    "function": {"name": "get_weather", "arguments": arguments}}
            self.refused("messages[1].tool_calls[0].function.arguments",
                         [{"role": "user", "content": "hi"},
                          {"role": "assistant", "content": None, "tool_calls": [call]},
                          {"role": "tool", "tool_call_id": "a", "content": "ok"}])

    def test_bad_messages_are_named(self):
        self.refused("messages", [])
        self.refused("messages[0].role", [{"role": "king", "content": "x"}])
        self.refused("messages[0].content", [{"role": "user", "content": 7}])

    def test_bad_prompts_of_completions_are_named(self):
        for prompt in ([], ["a", "b"], [1 << 40], [-1], [0.5], {"text": "x"}):
            with self.assertRaises(openai.BadRequestError) as caught:
                client.completions.create(model=model, prompt=prompt, max_tokens=1)
            self.assertEqual(caught.exception.param, "prompt", f"{prompt}: {caught.exception}")

    def test_an_unknown_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            message = {"role": "user", "content": "x"}
            client.chat.completions.create(model="other", messages=[message])
        self.assertEqual(caught.exception.param, "model")

    def test_a_default_length_is_cut_and_a_sent_one_refused(self):
        context = json.load(urllib.request.urlopen(deployment.url + "/v1/models"))["data"][0][
            "max_model_len"]
        for left in (1, 40):
            prompt = [300] * (context - left)
            answer = client.completions.create(model=model, prompt=prompt,
                                               extra_body={"ignore_eos": True})
            self.assertEqual(answer.usage.completion_tokens, left)
            self.assertEqual(answer.choices[0].finish_reason, "length")
            with self.assertRaises(openai.BadRequestError) as caught:
                client.completions.create(model=model, prompt=prompt, max_tokens=left + 1)
            self.assertEqual(caught.exception.param, "max_tokens")
        self.refused("max_tokens", max_tokens=context)
        self.refused("max_completion_tokens", max_completion_tokens=context)

    def test_a_prompt_that_cannot_fit_has_its_code(self):
        context = json.load(urllib.request.urlopen(deployment.url + "/v1/models"))["data"][0][
            "max_model_len"]
        for prompt in ([300] * context, [[300] * (context + 1)], "window " * context):
            with self.assertRaises(openai.BadRequestError) as caught:
                client.completions.create(model=model, prompt=prompt, max_tokens=1)
            self.assertEqual((caught.exception.code, caught.exception.param),
                             ("context_length_exceeded", "prompt"))
        for length in (context, 1 << 40):
            with self.assertRaises(openai.BadRequestError) as caught:
                ask("Hello", max_tokens=length)
            self.assertEqual((caught.exception.code, caught.exception.param),
                             ("context_length_exceeded", "max_tokens"))

    def test_a_prompt_that_cannot_fit_is_refused(self):
        with self.assertRaises(openai.BadRequestError):
            ask("word " * 400000)

    def test_a_large_body_is_read_without_waiting(self):
        body = {"model": model, "messages": [{"role": "user", "content": "What is 4 times 2?"}]}
        request = urllib.request.Request(deployment.url + "/v1/chat/completions",
                                         json.dumps(body).encode() + b" " * (1 << 20),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertEqual(json.load(answer)["choices"][0]["message"]["content"], "4 * 2 = 8.")

    def test_a_body_that_no_context_could_hold_is_refused(self):
        request = urllib.request.Request(deployment.url + "/v1/chat/completions", b" " * (8 << 20),
                                         {"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=60)
        self.assertEqual(caught.exception.code, 413)
        self.assertIn("at most", json.load(caught.exception)["error"]["message"])

    def test_what_is_no_json_is_refused(self):
        request = urllib.request.Request(deployment.url + "/v1/chat/completions", b'{"messages": [',
                                         {"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=60)
        self.assertEqual(caught.exception.code, 400)
        self.assertIn("message", json.load(caught.exception)["error"])


class Service(unittest.TestCase):
    def test_the_model_is_found_by_name(self):
        self.assertEqual(client.models.retrieve(model).id, model)
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("other")

    def test_a_path_has_its_method(self):
        for path, method, status in (("/v1/completions", "GET", 405), ("/metrics", "POST", 405),
                                     ("/v1/models", "DELETE", 405), ("/v2/models", "GET", 404),
                                     ("/%ff", "GET", 404), ("/" + "%e2%82%ac" * 99, "POST", 404)):
            request = urllib.request.Request(deployment.url + path, method=method)
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=60)
            self.assertEqual(caught.exception.code, status, path)
            self.assertEqual("Allow" in caught.exception.headers, status == 405, path)

    def test_every_answer_names_its_request(self):
        for path, body, status in (("/v1/chat/completions", b"{", 400), ("/nowhere", None, 404),
                                   ("/v1/completions", b'{"prompt": "a", "max_tokens": 1}', 200),
                                   ("/v1/models", None, 200)):
            for name in ("mine-7", None):
                headers = {"x-request-id": name} if name else {}
                try:
                    answer = urllib.request.urlopen(
                        urllib.request.Request(deployment.url + path, body, headers), timeout=60)
                except urllib.error.HTTPError as error:
                    answer = error
                self.assertEqual(answer.status, status)
                self.assertEqual(answer.headers["x-request-id"], name or
                                 answer.headers["x-request-id"])
                self.assertTrue(answer.headers["x-request-id"], path)
                answer.close()

    def test_health_and_ready(self):
        for path in ("/health", "/ready", "/v1/models"):
            for method in ("GET", "HEAD"):
                request = urllib.request.Request(deployment.url + path, method=method)
                with urllib.request.urlopen(request, timeout=60) as answer:
                    self.assertEqual(answer.status, 200)
                    self.assertEqual(len(answer.read()) > 0, method == "GET")

    def test_a_client_that_leaves_is_aborted(self):
        stream = ask("Hello", stream=True, max_tokens=8000, extra_body={"ignore_eos": True})
        next(iter(stream))
        self.assertEqual(open_requests(), 1)
        stream.close()
        await_true(lambda: open_requests() == 0, "still running after its client left")
        self.assertEqual(ask("What is 4 times 2?").choices[0].message.content, "4 * 2 = 8.")


if __name__ == "__main__":
    unittest.main()
