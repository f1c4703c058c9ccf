// Whether this server shows training runs. A server with --runs serves another version of this file.

export const hasRuns = false;
