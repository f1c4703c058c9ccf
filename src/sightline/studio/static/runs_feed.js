// What the server tells of runs, asked again every two seconds while one trains: only what is new is sent.

const PAUSE = 2000;
const ROUNDS = 5; // after so many, the list itself is asked for again

/** Follow the runs of a server; `changed(cards)` hears of every change. `choose(ids)` says whose records are wanted. */
export function follow(ask, { changed, failed }) {
  const ended = new AbortController();
  const { signal } = ended;
  const followed = new Map();
  let [cards, chosen, round, timer, busy] = [[], [], 0, null, false];

  async function listed() {
    const { runs } = await ask("/studio-api/runs", undefined, { signal });
    if (round > 0 && JSON.stringify(runs) === JSON.stringify(cards)) return;
    cards = runs;
    for (const { id, state } of cards) if (state !== "ended" && followed.has(id)) followed.get(id).complete = false; // it goes on
    changed(cards);
  }

  /** Fetch what is new of a run; one that has ended is asked once more after that was heard. */
  async function fetched(id) {
    const card = cards.find((one) => one.id === id);
    const run = followed.get(id) ?? { records: [], next: 0, tag: "", complete: false };
    if (card === undefined || run.complete) return;
    followed.set(id, run);
    for (let more = true; more && !signal.aborted; ) {
      const answer = await ask(`/studio-api/runs/${id}/metrics?since=${run.next}&tag=${run.tag}`, undefined, { signal });
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
        if (round % ROUNDS === 0) await listed();
        for (const id of [...chosen]) await fetched(id);
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
