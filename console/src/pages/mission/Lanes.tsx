import { Table, Text } from "@mantine/core";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { LANES, type TimelineEvent, spansOf } from "./lanes";

export function Lanes({ events, ended }: { events: TimelineEvent[]; ended: string | null }) {
  const t = useT();
  const format = useFormat();
  const spans = spansOf(events, ended ? Date.parse(ended) : Date.now());
  if (!spans.length) return null;
  const from = Math.min(...spans.map((span) => span.from));
  const length = Math.max(1, Math.max(...spans.map((span) => span.to)) - from);
  const percent = (value: number) => `${(100 * value) / length}%`;
  return (
    <figure className="lanes">
      <div aria-hidden="true">
        {LANES.map((lane) => (
          <div className="lane" key={lane}>
            <Text size="xs" c="dimmed">
              {t(`lane.${lane}`)}
            </Text>
            <div className="lane-track">
              {spans.filter((span) => span.lane === lane).map((span) => (
                <span
                  key={span.from}
                  className="lane-span"
                  data-lane={lane}
                  data-failed={span.failed}
                  data-open={span.open}
                  style={{ left: percent(span.from - from), width: percent(span.to - span.from) }}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
      <details>
        <summary>{t("chart.numbers")}</summary>
        <Table>
          <Table.Tbody>
            {spans.map((span) => (
              <Table.Tr key={`${span.lane}${span.from}`}>
                <Table.Td>{t(`lane.${span.lane}`)}</Table.Td>
                <Table.Td>{format.time(new Date(span.from).toISOString())}</Table.Td>
                <Table.Td>{format.span((span.to - span.from) / 1000)}</Table.Td>
                <Table.Td>{span.failed ? t("status.failed") : span.open ? t("status.running") : ""}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </details>
    </figure>
  );
}
