const STEPS = [1, 2, 5, 10];

// The next round number above what is to be shown, so that the scale can be read.
export function niceMost(most: number): number {
  if (most <= 1) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return (STEPS.find((step) => step * size >= most) ?? 10) * size;
}

// A line through the middle of each column, closed down to the ground when it is to be filled.
export function areaOf(
  values: readonly number[],
  most: number,
  height: number,
  closed: boolean,
): string {
  if (!values.length) return "";
  const at = (value: number) => (height - (height * value) / most).toFixed(2);
  const line = values
    .map((value, index) => `${index ? "L" : "M"}${index * 10 + 5} ${at(value)}`)
    .join("");
  return closed ? `${line}L${values.length * 10 - 5} ${height}L5 ${height}Z` : line;
}
