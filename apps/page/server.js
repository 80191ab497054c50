// The server this page came from: what it is called, and its answers as objects. Knows no page.

import { events } from "./events.js";

// What a request failed with, as one sentence. isLocked: the server wants a key, or another one.
export class Refused extends Error {
  constructor(sentence, isLocked = false) {
    super(sentence);
    this.isLocked = isLocked;
  }
}

export async function modelName() {
  const response = await reach("/health", {});
  return (await response.json()).model;
}

// Chunks of an answer. Throws Refused, and an AbortError when `signal` has stopped it.
export async function* ask(request, key, signal) {
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const body = JSON.stringify({ ...request, stream: true });
  const response = await reach("/v1/chat/completions", { method: "POST", headers, body, signal });
  try {
    for await (const event of events(response.body)) {
      if (event.error) throw new Refused(event.error.message);
      yield event;
    }
  } catch (error) {
    if (error instanceof Refused || signal.aborted) throw error;
    throw new Refused("The answer broke off: the server is gone, or the connection to it.");
  }
}

async function reach(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused("The server cannot be reached: it may have ended.");
  }
  if (response.ok) return response;
  throw new Refused(await sentence(response), response.status === 401);
}

async function sentence(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}
