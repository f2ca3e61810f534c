/** Tells a server that stumbled from one that falls over each time: the first is started again, the second is not. */
export class Crashes {
  private times: number[] = [];

  constructor(
    private readonly allowed = 3,
    private readonly within = 3 * 60_000,
  ) {}

  /** Count a crash; says whether to start again. */
  mayRestart(now: number): boolean {
    this.times = this.times.filter((time) => now - time < this.within);
    this.times.push(now);
    return this.times.length <= this.allowed;
  }

  forget(): void {
    this.times = [];
  }
}
