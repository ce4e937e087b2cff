// One chat request with the unmodified openai-node; prints what the SDK made of the answer as JSON.
import OpenAI from "openai";

const [baseURL, stream] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: 20000 });
const request = { model: "fake", messages: [{ role: "user", content: "hello" }], stream: stream === "stream" };
const out = { texts: [], finish: null, error: null, status: null };
try {
  const answer = await client.chat.completions.create(request);
  if (request.stream) {
    for await (const chunk of answer) {
      const choice = chunk.choices[0];
      if (choice?.delta?.content) out.texts.push(choice.delta.content);
      if (choice?.finish_reason) out.finish = choice.finish_reason;
    }
  } else {
    out.texts.push(answer.choices[0].message.content);
    out.finish = answer.choices[0].finish_reason;
  }
} catch (problem) {
  out.error = problem.constructor.name;
  out.status = problem.status ?? null;
}
console.log(JSON.stringify(out));
