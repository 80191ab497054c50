// The JSON objects of a stream of server-sent events, one by one, up to its end mark. Knows no meaning of them.

const END_MARK = "[DONE]";

export async function* events(stream) {
  let kept = "";
  for await (const text of texts(stream)) {
    const blocks = (kept + text).split("\n\n");
    kept = blocks.pop();
    for (const block of blocks) {
      const data = dataOf(block);
      if (data === END_MARK) return;
      if (data) yield JSON.parse(data);
    }
  }
  throw new Error("the answer broke off");
}

async function* texts(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}

// Lines that begin with a colon are comments: they keep the connection alive.
function dataOf(block) {
  const lines = block.split("\n").filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice("data:".length).trimStart()).join("\n");
}
