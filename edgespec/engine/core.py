"""The engine: one model in memory, answers on request. Safe to use from several threads."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgespec.backend.settings import LlamaSettings
from edgespec.choice import DraftChoice
from edgespec.draft.corpus import Corpus
from edgespec.engine.answer import Answer, CancelToken, PieceCallback, RoundCallback
from edgespec.engine.arrangement import Arranger
from edgespec.engine.checks import check_prompt, check_sampling
from edgespec.engine.conversation import Conversation
from edgespec.engine.drafting import Drafters
from edgespec.engine.finding import find_model
from edgespec.engine.idle import IdleTuner
from edgespec.engine.job import Request
from edgespec.engine.opening import Opened, open_model
from edgespec.engine.options import EngineOptions, GenerateOptions
from edgespec.engine.pace import PaceStatus
from edgespec.engine.paced import paced
from edgespec.engine.pair.hosting import end_tokens as end_tokens
from edgespec.engine.pair.hosting import host_of
from edgespec.engine.pair.pairing import find_partner
from edgespec.engine.pair.partner import Partner
from edgespec.engine.pair.placing import Placer
from edgespec.engine.policies import Journal, Policies
from edgespec.engine.profiles import Profiles, kept_profiles
from edgespec.engine.progress import OnProgress, loading
from edgespec.engine.shelf import keep_answer, open_shelf
from edgespec.engine.sockets import Model
from edgespec.engine.worker import Worker
from edgespec.errors import EdgeSpecError
from edgespec.events import Completion, Finish, Notice
from edgespec.library.card import ModelCard
from edgespec.library.resolve import ResolvedModel
from edgespec.library.vocabulary import read_vocabulary
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import DraftCosts
from edgespec.spec.policy import Explanation, Policy
from edgespec.spec.ports import Drafter, SequenceId
from edgespec.text.constraint import GrammarCompiler
from edgespec.text.grammar import Grammar
from edgespec.text.template import ChatTemplate, load_template
from edgespec.text.vocab import PromptEncoder, Segment
from edgespec.tune.tuning import Tuning


@dataclass(frozen=True, slots=True)
class Extras:
    """What a program may put in place of the engine's own parts. policy: decides how much to draft. drafters: guess
    instead of the look-up; they are guarded like it. journal: gets every entry of the ledger, in the engine's thread.
    """

    policy: Policy | None = None
    drafters: tuple[Drafter, ...] | None = None
    journal: Journal | None = None


class Engine:
    """Open one with `Engine.open`, close it with `close` or a `with` block.

    with Engine.open() as engine:
        print(engine.conversation().say("Hello").text)
    """

    def __init__(
        self,
        opened: Model,
        name: str,
        notices: list[Notice],
        extras: Extras | None = None,
        card: ModelCard | None = None,
        tune_when_idle: bool = False,
        partner: Partner | None = None,
        store: Profiles | None = None,
        corpus: Corpus | None = None,
        remembers: bool = False,
    ) -> None:
        extras = extras or Extras()
        self.name = name
        self.header = opened.header
        self.vocab = opened.vocab
        self.notices = notices
        self.card = card
        self.encoder = PromptEncoder(opened.vocab)
        ends = end_tokens(opened.vocab, card)
        self._grammars = GrammarCompiler(opened.vocab, ends)
        self._ids = itertools.count()
        tuned = opened.tuned
        costs = partner.all_costs if partner else dict[str, DraftCosts]
        seen = partner.experience if partner else Acceptance
        self._policies = Policies(tuned.table if tuned else None, extras.journal, extras.policy, store, costs, seen)
        self._pacing = paced(opened.target, opened.settings, tuned, self._policies.reprice)
        self._arranger = Arranger(opened.target, self._policies, self._pacing, opened.tuning)
        self.partner = partner
        self._corpus = corpus
        self._remembers = remembers
        decides = lambda: self._policies.decides  # noqa: E731  # asked for every request
        t1_seconds = lambda: self._arranger.t1_seconds(0)  # noqa: E731  # the same
        own, clock = extras.drafters, time.perf_counter
        drafters = Drafters(opened.vocab, clock, decides, own, partner, corpus, t1_seconds, tune_when_idle)
        self._worker = Worker(
            opened.target,
            opened.vocab,
            self._policies,
            drafters.for_request,
            opened.width_class,
            ends,
            pacing=self._pacing,
            agreeing_threads=opened.agreeing_threads,
            suit=self._arranger.suit,
            placer=self._placer(partner),
            second=partner.name if partner else "",
            closing=partner.close if partner else lambda: None,
            hurry=partner.hurry if partner else lambda _is_urgent: None,
        )
        if partner is not None:
            self._worker.between(partner.prepare)
        self._news: deque[Notice] = deque()  # for whoever asks next
        self._idle_tuner: IdleTuner | None = None
        if tune_when_idle and (opened.tuning is None or opened.tuning.is_partial):
            self._idle_tuner = IdleTuner(opened.measure, self._worker.quiet, self._learn)

    @property
    def settings(self) -> LlamaSettings:
        """What the model runs with when the machine is free; other settings may follow when texts get longer."""
        return self._arranger.settings

    @property
    def tuning(self) -> Tuning | None:
        """What was measured of the model on this machine; None while nothing is."""
        return self._arranger.tuning

    @property
    def pace(self) -> PaceStatus | None:
        """Threads now and wanted, and what others use of the cores; None where threads are never changed."""
        return self._pacing.status if self._pacing else None

    def _placer(self, partner: Partner | None) -> Placer:
        if partner is None or not partner.may_be_beside:
            return Placer()
        if self._pacing is not None:
            self._pacing.share(partner.levels(self._arranger.tuned))
        return Placer(partner.work_ahead, self._arranger.t1_seconds, partner.course)

    def _learn(self, tuning: Tuning) -> None:
        self._worker.between(lambda: self._arranger.learn(tuning))
        self._news.append(Notice("tuned", "this model is measured now: from here on it drafts where that pays"))

    @classmethod
    def open(
        cls,
        model: str | Path | ResolvedModel | None = None,
        options: EngineOptions | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        extras: Extras | None = None,
        on_progress: OnProgress | None = None,
    ) -> Engine:
        """Load a model: a GGUF file, a card's name, `hf:user/repo[:quant]`, one that `resolve` found, or None
        for the starter model.

        `on_progress` hears of a download, of the load, and of measuring a second model that was never measured, and
        returns False to give up, which raises GivenUp. `extras` are for who brings parts of his own. Raises
        EdgeSpecError.
        """
        notices: list[Notice] = []

        def notify(notice: Notice) -> None:
            notices.append(notice)
            if on_notice is not None:
                on_notice(notice)

        found = model if isinstance(model, ResolvedModel) else find_model(model, on_progress)
        options = options or EngineOptions()
        opened = open_model(found.path, options, notify, loading(found.name, on_progress))
        try:
            host = host_of(opened, found.card, options.draft_device)
            partner = find_partner(options.draft_model, found.card, host, notify, on_progress)
            corpus = shelf_of(opened, options, notify)
        except EdgeSpecError:
            opened.target.close()
            raise
        store = kept_profiles(found.path, notify)
        idle, remembers = options.tune_when_idle, options.remember
        return cls(opened, found.name, notices, extras, found.card, idle, partner, store, corpus, remembers)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs and free the model. Closing twice is harmless."""
        if self._idle_tuner is not None:
            self._idle_tuner.close()
        self._worker.close()
        self._policies.close()

    def complete(
        self,
        prompt: str,
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_round: RoundCallback | None = None,
    ) -> Answer:
        """Go on with a text as it stands: no chat template. Raises what `submit` raises."""
        tokens = self.encoder.encode([Segment(prompt, trusted=False)])
        return self.submit(self.new_sequence(), False, tokens, options, cancel, on_piece, on_round=on_round)

    def conversation(self, system: str = "", template: str | None = None) -> Conversation:
        """A chat. `template` is a built-in name or a jinja2 file; None takes the card's or the model's own."""
        return Conversation(self, self.template(template), system, self.card.stop_strings if self.card else ())

    def template(self, name_or_file: str | None = None) -> ChatTemplate:
        """A built-in chat template by name, or that of a jinja2 file; None takes the card's or the model's own. Raises
        BadInput.
        """
        own = (self.card.chat_template if self.card else None) or self.header.chat_template
        return load_template(name_or_file, own, self.vocab.bos_text, self.vocab.eos_text)

    def compile(self, grammar: Grammar) -> None:
        """Make a grammar ready ahead of the request that names it in its options. Takes up to some seconds for the
        first one. Raises BadInput for what cannot be read, MissingExtra. From any thread.
        """
        self._grammars.compile(grammar)

    def explain(
        self, context: int, choice: DraftChoice = DraftChoice.AUTO, width_class: tuple[int, ...] = ()
    ) -> Explanation | None:
        """Why it drafts as it does, at so many tokens of context; None when nothing was measured. From any thread:
        numbers of the round under way may be in it.
        """
        return self._policies.explain(choice, context, width_class)

    # -- for conversations and for the server -------------------------------------------------------------------

    def _remembering(
        self, prompt: list[int], on_done: Callable[[Completion], None] | None
    ) -> Callable[[Completion], None]:
        """Keep the answer once it is complete, when nothing else is asked: a merge of the corpus may take a while."""

        def done(completion: Completion) -> None:
            if on_done is not None:
                on_done(completion)
            if self._corpus is not None and completion.finish is not Finish.CANCELLED:
                corpus = self._corpus
                self._worker.between(lambda: keep_answer(corpus, prompt, completion.token_ids))

        return done

    def new_sequence(self) -> SequenceId:
        return next(self._ids)

    def release(self, sequence: SequenceId) -> None:
        self._worker.release(sequence)

    def submit(
        self,
        sequence: SequenceId,
        keep: bool,
        prompt: list[int],
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_done: Callable[[Completion], None] | None = None,
        on_round: RoundCallback | None = None,
        notices: tuple[Notice, ...] = (),
    ) -> Answer:
        """Queue a request made of tokens; `notices` are what the answer begins with.

        Raises at once: ContextOverflow for a prompt that cannot fit, BadInput for tokens that the model does not have
        and for a prompt without any, or for a grammar that cannot be read, MissingExtra where the library that follows
        grammars is not installed, EngineFailure when the engine is closed.
        """
        options = options or GenerateOptions()
        check_prompt(prompt, self.vocab.n_vocab, self.settings.n_ctx, self.header.context_length)
        check_sampling(options.sampling, self.vocab.n_vocab)
        constraint = None if options.grammar is None else self._grammars.compile(options.grammar)
        answer = Answer(cancel or CancelToken(), on_piece)
        while self._news:
            notices = (*notices, self._news.popleft())
        if self._remembers:
            on_done = self._remembering(prompt, on_done)
        self._worker.submit(Request(sequence, keep, prompt, options, answer, on_done, on_round, notices, constraint))
        return answer


def shelf_of(opened: Opened, options: EngineOptions, notify: Callable[[Notice], None]) -> Corpus | None:
    if not options.corpus and not options.remember:
        return None
    token_hash = read_vocabulary(opened.header.path).token_hash()
    return open_shelf(options.corpus, options.remember, opened.vocab, token_hash, notify)
