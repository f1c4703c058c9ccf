// Poll the server for runs and metrics every two seconds; only new records are sent.

const PAUSE = 2000;
const ROUNDS = 5; // after so many rounds, the list of runs is fetched again

/** Poll the runs of a server; `changed(cards)` is called after changes. `choose(ids)` sets the runs whose records are fetched. */
export function pollRuns(fetchJson, { changed, failed }) {
  const ended = new AbortController();
  const { signal } = ended;
  const followed = new Map();
  let [cards, chosen, round, timer, busy] = [[], [], 0, null, false];

  async function fetchList() {
    const { runs } = await fetchJson("/studio-api/runs", undefined, { signal });
    if (round > 0 && JSON.stringify(runs) === JSON.stringify(cards)) return;
    cards = runs;
    for (const { id, state } of cards) if (state !== "ended" && followed.has(id)) followed.get(id).complete = false; // it was resumed
    changed(cards);
  }

  /** Fetch new records of a run; once more after it has ended. */
  async function fetchRecords(id) {
    const card = cards.find((one) => one.id === id);
    const run = followed.get(id) ?? { records: [], next: 0, tag: "", complete: false };
    if (card === undefined || run.complete) return;
    followed.set(id, run);
    for (let more = true; more && !signal.aborted; ) {
      const answer = await fetchJson(`/studio-api/runs/${id}/metrics?since=${run.next}&tag=${run.tag}`, undefined, { signal });
      const news = answer.reset || answer.records.length > 0;
      if (news) run.records = (answer.reset ? [] : run.records).concat(answer.records);
      [run.next, run.tag, more] = [answer.next, answer.tag, answer.more];
      if (news) changed(cards);
    }
    run.complete = card.state === "ended";
  }

  async function tick() {
    clearTimeout(timer);
    if (busy) return;
    busy = true;
    try {
      if (!document.hidden || round === 0) {
        if (round % ROUNDS === 0) await fetchList();
        for (const id of [...chosen]) await fetchRecords(id);
        round++;
      }
      failed(null);
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
    busy = false;
    if (!signal.aborted) timer = setTimeout(tick, chosen.some((id) => !followed.has(id) && cards.some((card) => card.id === id)) ? 0 : PAUSE);
  }

  tick();
  return {
    records: (id) => followed.get(id)?.records ?? [],
    choose: (ids) => {
      chosen = ids;
      tick();
    },
    end: () => {
      ended.abort();
      clearTimeout(timer);
    },
  };
}
