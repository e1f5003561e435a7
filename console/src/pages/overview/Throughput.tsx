import { Table, Text } from "@mantine/core";
import type { Stats } from "../../api/operations";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { useStatusName } from "../../parts/Status";
import { columnsOf } from "./throughput";

const HEIGHT = 100;

export function Throughput({ stats }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const columns = columnsOf(stats);
  const most = Math.max(1, ...columns.map((column) => column.total));
  const outcomes = [...new Set(stats.throughput.map(({ outcome }) => outcome))].sort();
  const ended = columns.reduce((sum, column) => sum + column.total, 0);
  return (
    <figure className="throughput">
      <figcaption>
        <Text size="sm" c="dimmed">
          {t("overview.ended", { count: ended, minutes: Math.round(stats.window_seconds / 60) })}
        </Text>
        {outcomes.map((outcome) => (
          <span key={outcome} className="legend" data-outcome={outcome}>
            {nameOf(outcome)}
          </span>
        ))}
      </figcaption>
      <svg viewBox={`0 0 ${columns.length * 10} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {columns.map((column, index) => {
          let top = HEIGHT;
          return outcomes.map((outcome) => {
            const height = (HEIGHT * (column.outcomes[outcome] ?? 0)) / most;
            top -= height;
            return height > 0 && <rect key={`${column.at}${outcome}`} x={index * 10 + 1} width={8} y={top} height={height} data-outcome={outcome} />;
          });
        })}
      </svg>
      <details>
        <summary>{t("chart.numbers")}</summary>
        <Table>
          <Table.Tbody>
            {columns.filter((column) => column.total > 0).map((column) => (
              <Table.Tr key={column.at}>
                <Table.Td>{format.clock(column.at)}</Table.Td>
                <Table.Td>{outcomes.map((outcome) => column.outcomes[outcome] && `${nameOf(outcome)}: ${format.number(column.outcomes[outcome])}`).filter(Boolean).join(" · ")}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </details>
    </figure>
  );
}
