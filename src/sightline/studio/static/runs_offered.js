// Whether this server shows training runs: not unless it was started with --runs, when it gives another file than this.

export const hasRuns = false;
