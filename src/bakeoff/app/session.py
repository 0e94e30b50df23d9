"""One run: folder, servers, measuring, verdict, report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..client import asked, held, listening, loose
from ..errors import UsageError
from ..measure.budget import Ledger
from ..measure.pilot import searches
from ..measure.progress import Progress
from ..measure.runner import Attempt, Outcome, Runner
from ..measure.search import Reading, read_probe
from ..model import Answer, Block, BlockData, Engine, Environment, Experiment, RequestRecord, Result, Sample, Start
from ..quality.items import LoadedTask
from ..quality.tasks import refuse_changed
from ..runs import RunFolder, to_columns
from ..runs.missing import missing_files
from .damage import Damage, told
from .divergence import divergence_of, walk
from .loading import checked_inputs, load_experiment, refuse_wrong
from .preflight import refuse_unreached
from .profiles import profile_findings, profile_notes, take_profiles
from .recompute import save
from .verdict import Evidence, Judge, State, conclude


def run(
    experiment: Experiment | str | Path | None = None,
    *,
    root: str | Path = "runs",
    resume: str | Path | None = None,
    progress: Progress | None = None,
    source: str | None = None,
    command: Sequence[str] = (),
    quality_note: str | None = None,
    begun: Callable[[], None] | None = None,
) -> Result:
    """Measures an experiment (a file or an Experiment) and returns the verdict.

    Everything is saved under `root` in a new folder (`Result.run` names it): raw data after every block, then
    result.json and report.html. `resume` goes on with an interrupted run instead. Ctrl-C, SIGTERM and SIGHUP end the
    measuring; what exists is saved and judged, and `Result.state` is ``interrupted``. `quality_note` says why the
    quality of the variants cannot be compared, where that is known beforehand. `begun` is called once, when everything
    has been checked and the measuring begins.

    Raises ConfigError (an Experiment made in code breaks a rule of files, too), WorkloadError and TaskError (what it
    names cannot be used; nothing is begun), EngineError (other arms' data are kept), RunFolderError, UsageError.
    """
    if (experiment is None) == (resume is None):
        raise UsageError("give either an experiment or a run to resume", remedy="bakeoff.run('experiment.yaml')")
    with listening():
        progress = progress or Progress()
        if resume is not None:
            folder = RunFolder.open(Path(resume))
            if folder.info.state == "complete":
                raise UsageError(
                    "this run is complete", where=str(folder.path), remedy="start a new run for more pairs"
                )
            engines, tasks = checked_inputs(folder.info.experiment)
            refuse_changed(tasks, folder.answers())
            refuse_unreached(folder.info.experiment, engines, progress)
            _call(begun)
            return _Session(folder, progress, tasks).measure(engines, resumed=True)
        assert experiment is not None  # noqa: S101 - by the check above; tells the type checker
        if not isinstance(experiment, Experiment):
            source = source or Path(experiment).name
            experiment = load_experiment(experiment)
        else:
            refuse_wrong(experiment)
        engines, tasks = checked_inputs(experiment)
        Ledger(experiment)  # refuses a budget in another currency than the prices
        refuse_unreached(experiment, engines, progress)
        with held():  # a folder is no run before it is whole
            folder = RunFolder.create(
                Path(root), experiment, command=command, source=source or "python", version=__version__
            )
            folder.update(quality_note=quality_note)
        _call(begun)
        return _Session(folder, progress, tasks).measure(engines)


class _Session:
    """The sink of a run: saves to the folder and keeps the blocks in memory for the looks between groups."""

    def __init__(self, folder: RunFolder, progress: Progress, tasks: Sequence[LoadedTask] = ()) -> None:
        self._tasks = tasks
        self._experiment = folder.info.experiment
        self._folder = folder
        self._progress = progress
        self._blocks: list[BlockData] = []
        self._ledger: Ledger | None = None

    # the sink ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def write_block(self, block: Block, requests: Sequence[RequestRecord], samples: Sequence[Sample]) -> None:
        with held():
            self._folder.write_block(block, requests, samples)
            self._blocks.append(BlockData(block=block, columns=to_columns(requests)))
            self._note(blocks=max(self._folder.info.blocks, block.id + 1))

    def write_start(self, start: Start) -> None:
        with held():
            self._folder.write_start(start)

    def write_answers(self, answers: Sequence[Answer]) -> None:
        with held():
            self._folder.write_answers(answers)
            self._note()

    def answers(self) -> Sequence[Answer]:
        return self._folder.answers()

    def write_environment(self, environment: Environment) -> None:
        self._folder.update(environment=environment)

    def log_path(self, start_id: int, variant: str) -> tuple[Path, str]:
        return self._folder.log_path(start_id, variant)

    def next_start_id(self) -> int:
        return self._folder.next_start_id()

    def next_block_id(self) -> int:
        return self._folder.next_block_id()

    # the run ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def measure(self, engines: Mapping[str, Any], *, resumed: bool = False) -> Result:
        """Measures, saves and judges. resumed: this goes on with a run that was begun before."""
        with self._folder.lock(), held():
            self._folder.update(
                state="running", stop_reason=None, resumes=self._folder.info.resumes + 1 if resumed else 0
            )
            self._blocks = self._folder.blocks()
            used = self._folder.info.plan
            self._ledger = Ledger(
                self._experiment,
                elapsed_s=float(used.get("elapsed_s", 0.0)),
                requests=int(used.get("requests", 0)),
                spent=self._folder.info.spent,
            )
            try:
                with loose():
                    outcome, state = self._run(dict(engines), self._ledger)
            except KeyboardInterrupt:
                outcome, state = Outcome(0, "interrupted; go on with --resume", None), "interrupted"
            except BaseException as error:
                self._note(state="failed", stop_reason=_first_line(error))
                raise
            self._note(state=state, stop_reason=outcome.reason)
            result = self._conclude(outcome, state)
            if outcome.failure is not None:
                raise self._with_place(outcome.failure)
        if asked() and state != "interrupted":  # in the profiled pass, which it ended: the rest is measured and saved
            raise KeyboardInterrupt
        return result

    def _run(self, engines: dict[str, Engine], ledger: Ledger) -> tuple[Outcome, State]:
        done = {(b.block.round, b.block.variant, b.block.cell, b.block.kind) for b in self._blocks}
        if searches(self._experiment):
            self._find_levels(self._runner(engines, ledger))
        walk(
            self._experiment,
            self._runner(engines, ledger),
            self._attempt(),
            self._folder,
            self._progress,
            self._tasks,
        )
        outcome = self._runner(engines, ledger).run(
            self._attempt(),
            done=done,
            client_processes={
                b.block.cell: b.block.health.client_processes for b in self._blocks if b.block.kind != "probe"
            },
        )
        if self._experiment.profile and outcome.failure is None:
            take_profiles(
                self._experiment, self._runner(engines, ledger), self._attempt(), self._folder, self._progress
            )
        return outcome, "failed" if outcome.failure is not None else "complete"

    def _note(self, **changes: Any) -> None:
        """Saves how the run stands, with what it has used so far."""
        if self._ledger is not None:
            changes |= {"spent": self._ledger.spent, "plan": self._used(self._ledger)}
        self._folder.update(**changes)

    def _attempt(self) -> Attempt:
        return Attempt(self._folder.info.attempt, __version__, self._folder.info.environment)

    def _runner(self, engines: dict[str, Engine], ledger: Ledger) -> Runner:
        return Runner(
            self._experiment,
            engines,
            self,
            stop=Judge(self._experiment, lambda: self._blocks, self._folder.starts),
            ledger=ledger,
            progress=self._progress,
            tasks=self._tasks,
        )

    def _find_levels(self, runner: Runner) -> None:
        """Fills in searched load levels and saves the experiment so, that it is searched once, also when resumed."""
        known: dict[tuple[str, str], Reading] = {}
        for block in self._folder.block_infos():
            if block.kind == "probe":
                slo = self._experiment.workload(block.cell.rpartition("/")[0]).slo
                known[block.variant, block.cell] = read_probe(self._folder.records(block.id), block.window_ns, slo)
        self._progress.phase("searching for load levels")
        self._experiment = runner.search(
            self._attempt(),
            known=known,
        )
        self._folder.update(experiment=self._experiment)

    def _conclude(self, outcome: Outcome, state: State) -> Result:
        self._progress.phase("comparing")
        result = conclude(
            self._experiment,
            Evidence(
                blocks=self._blocks,
                starts=self._folder.starts(),
                traced=profile_findings(self._experiment, self._folder),
                answers=self._folder.answers(),
                divergence=divergence_of(self._experiment, self._folder),
                notes=profile_notes(self._experiment, self._folder) if state == "complete" else (),
            ),
            run=str(self._folder.path),
            state=state,
            reason=outcome.reason,
            quality_note=self._folder.info.quality_note,
        )
        result = told(result, Damage(missing=missing_files(self._folder.path, self._folder.info.blocks)))
        save(self._folder, result)
        return result

    @staticmethod
    def _used(ledger: Ledger) -> dict[str, Any]:
        return {"elapsed_s": round(ledger.elapsed_s, 3), "requests": ledger.requests}

    def _with_place(self, error: Exception) -> Exception:
        """Says where the data of the other arms lie."""
        if self._blocks and hasattr(error, "remedy"):
            kept = f"{len(self._blocks)} blocks are kept in {self._folder.path}; go on with --resume when it is mended"
            error.remedy = f"{error.remedy}; {kept}" if error.remedy else kept
        return error


def _call(begun: Callable[[], None] | None) -> None:
    if begun is not None:
        begun()


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:300] or type(error).__name__
