const STEPS = [1, 2, 5, 10];

// The smallest 1, 2 or 5 times a power of ten that is at least the given maximum.
export function niceMaximum(most: number): number {
  if (most <= 1) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return (STEPS.find((step) => step * size >= most) ?? 10) * size;
}

// SVG path through the centre of each column; closed at the baseline for a filled area.
export function linePath(
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
