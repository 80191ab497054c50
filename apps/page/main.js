// The page: what its buttons and keys do, and how an answer goes from the server to where it is shown.

import { Chat } from "./chat.js";
import { Key } from "./key.js";
import { Log } from "./log.js";
import { Panel } from "./panel.js";
import { ask, modelName, Refused } from "./server.js";
import { Settings } from "./settings.js";

const byId = (id) => document.getElementById(id);
const [say, send, stop, status, error] = ["say", "send", "stop", "status", "error"].map(byId);
const [undo, again, fresh] = ["undo", "again", "new"].map(byId);
const ENDINGS = { length: "cut here: as long as it may be, or the context is full" };

const chat = new Chat();
const log = new Log();
const panel = new Panel();
const settings = new Settings();
const key = new Key();
// Stops the answer that is being made; null while none is.
let stopper = null;
// Why that answer ended, where it is not plain to see.
let ending = "";

function show() {
  const busy = stopper !== null;
  send.hidden = busy;
  stop.hidden = !busy;
  undo.disabled = again.disabled = fresh.disabled = busy || chat.isEmpty;
}

function tell(text) {
  status.textContent = text;
}

function complain(sentence) {
  error.textContent = sentence;
  error.hidden = !sentence;
}

async function answer() {
  stopper = new AbortController();
  ending = "";
  complain("");
  panel.clear();
  log.begin();
  show();
  tell("Answering …");
  say.focus();
  let outcome = "The answer is complete.";
  try {
    await receive();
    finish();
  } catch (problem) {
    outcome = fail(problem);
  }
  // Whoever looks at the panel meanwhile is left there.
  const focusIsFree = [document.body, stop].includes(document.activeElement);
  stopper = null;
  show();
  tell(outcome);
  if (focusIsFree) say.focus();
}

// Chunks until the end. Asks for the key once, where one is missing or wrong.
async function receive() {
  const request = { ...settings.fields(), messages: chat.messages(settings.system) };
  try {
    for await (const chunk of ask(request, key.value, stopper.signal)) take(chunk);
  } catch (problem) {
    if (!(problem.isLocked && (await key.ask()))) throw problem;
    for await (const chunk of ask(request, key.value, stopper.signal)) take(chunk);
  }
}

function take({ choices: [choice], edgespec: details, timings }) {
  const text = choice?.delta.content;
  if (text) log.more(text, details?.source ?? "");
  if (timings) panel.whole(timings, details);
  else if (details?.rounds) panel.rounds(details.rounds);
  if (choice?.finish_reason) ending = ENDINGS[choice.finish_reason] ?? "";
}

function finish() {
  chat.answer(log.text);
  log.end(ending || (log.text ? "" : "the model ended without a word"));
}

// What came stays; a question that got no answer at all goes back to where it was typed. Returns the state.
function fail(problem) {
  const stopped = stopper.signal.aborted;
  if (log.text) {
    chat.answer(log.text);
    log.end(stopped ? "stopped" : "broken off");
  } else {
    log.end("");
    takeBack();
  }
  if (stopped) return "Stopped.";
  complain(problem instanceof Refused ? problem.message : `This page failed: ${problem.message}`);
  return "";
}

function takeBack() {
  const question = chat.undo();
  log.keep(chat.turns.length);
  if (!say.value) say.value = question;
}

function submit() {
  const text = say.value.trim();
  if (stopper || !text || !settings.check()) return;
  chat.say(text);
  log.say(text);
  say.value = "";
  answer();
}

function regenerate() {
  if (!settings.check()) return;
  chat.forgetAnswer();
  log.keep(chat.turns.length);
  answer();
}

function goBack() {
  say.value = "";
  takeBack();
  afterwards("The last question was taken back.");
}

function begin() {
  chat.clear();
  log.keep(0);
  afterwards("A new chat.");
}

function afterwards(text) {
  panel.clear();
  complain("");
  tell(text);
  show();
  say.focus();
}

byId("compose").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
say.addEventListener("keydown", (event) => {
  // While a word is being composed from several keys, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stopper?.abort();
});
stop.addEventListener("click", () => stopper?.abort());
undo.addEventListener("click", goBack);
again.addEventListener("click", regenerate);
fresh.addEventListener("click", begin);

show();
modelName().then(
  (name) => (byId("model").textContent = name),
  (problem) => complain(problem.message),
);
