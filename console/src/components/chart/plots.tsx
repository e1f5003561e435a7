// SVG plots: stacked columns and a line over time, and horizontal bars with names.
import type { ReactNode } from "react";
import { useFormat } from "../../i18n/format";
import type { Series } from "./Chart";
import { linePath, niceMaximum } from "./scale";

const HEIGHT = 100;

export interface Point {
  at: number;
  values: Record<string, number>;
}

function Plot({
  points,
  most,
  children,
}: {
  points: readonly Point[];
  most: number;
  children: ReactNode;
}) {
  const format = useFormat();
  const first = points[0];
  const middle = points[Math.floor(points.length / 2)];
  return (
    <div className="plot">
      <span className="plot-most">{format.number(most)}</span>
      <svg
        aria-hidden="true"
        viewBox={`0 0 ${points.length * 10} ${HEIGHT}`}
        preserveAspectRatio="none"
      >
        <line className="plot-line" x1={0} x2={points.length * 10} y1={0.5} y2={0.5} />
        <line
          className="plot-line"
          x1={0}
          x2={points.length * 10}
          y1={HEIGHT / 2}
          y2={HEIGHT / 2}
        />
        {children}
      </svg>
      <div className="plot-times">
        <span>{first && format.minute(first.at)}</span>
        <span>{middle && format.minute(middle.at)}</span>
        <span>{format.minute(points.at(-1)?.at ?? 0)}</span>
      </div>
    </div>
  );
}

export function StackedColumns({
  points,
  series,
}: {
  points: readonly Point[];
  series: readonly Series[];
}) {
  const format = useFormat();
  const total = ({ values }: Point) => series.reduce((sum, { id }) => sum + (values[id] ?? 0), 0);
  const most = niceMaximum(Math.max(0, ...points.map(total)));
  return (
    <Plot points={points} most={most}>
      {points.map((point, index) => {
        if (!total(point)) return null;
        let top = HEIGHT;
        return (
          <g key={point.at}>
            <title>{`${format.clock(point.at)} · ${series.map(({ id, name }) => `${name}: ${format.number(point.values[id] ?? 0)}`).join(" · ")}`}</title>
            {series.map(({ id }) => {
              const height = (HEIGHT * (point.values[id] ?? 0)) / most;
              top -= height;
              return (
                height > 0 && (
                  <rect
                    key={id}
                    x={index * 10 + 1}
                    width={8}
                    y={top}
                    height={height}
                    data-hue={id}
                  />
                )
              );
            })}
          </g>
        );
      })}
    </Plot>
  );
}

export function LineChart({ points, series }: { points: readonly Point[]; series: Series }) {
  const values = points.map((point) => point.values[series.id] ?? 0);
  const most = niceMaximum(Math.max(0, ...values));
  return (
    <Plot points={points} most={most}>
      <path className="plot-area" data-hue={series.id} d={linePath(values, most, HEIGHT, true)} />
      <path
        className="plot-stroke"
        data-hue={series.id}
        d={linePath(values, most, HEIGHT, false)}
      />
    </Plot>
  );
}

export interface Bar {
  name: string;
  // Drawn on top of each other, the longest first.
  values: { id: string; value: number; text: string }[];
}

export function HorizontalBars({ bars }: { bars: readonly Bar[] }) {
  const most = Math.max(
    Number.MIN_VALUE,
    ...bars.flatMap(({ values }) => values.map(({ value }) => value)),
  );
  return (
    <div className="bars">
      {bars.map(({ name, values }) => (
        <div className="bar-row" key={name}>
          <span className="bar-name">{name}</span>
          <span className="bar-track">
            {[...values]
              .sort((a, b) => b.value - a.value)
              .map(({ id, value }) => (
                <span
                  key={id}
                  className="bar-fill"
                  data-hue={id}
                  style={{ width: `${(100 * value) / most}%` }}
                />
              ))}
          </span>
          <span className="bar-text">{values.map(({ text }) => text).join(" · ")}</span>
        </div>
      ))}
    </div>
  );
}
