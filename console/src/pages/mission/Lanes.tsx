import { Table, Text } from "@mantine/core";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { LANES, retriesIn, type Span, type TimelineEvent, timelineOf } from "./lanes";

export function Lanes({ events, ended }: { events: TimelineEvent[]; ended: string | null }) {
  const t = useT();
  const format = useFormat();
  const { spans, ticks } = timelineOf(events, ended ? Date.parse(ended) : Date.now());
  if (!spans.length) return null;
  const from = Math.min(...spans.map((span) => span.from));
  const to = Math.max(...spans.map((span) => span.to));
  const place = (value: number) => `${(100 * value) / Math.max(1, to - from)}%`;
  const retries = Array.from({ length: retriesIn(spans) }, (_, index) => index + 1);
  const retryOf = (at: number) =>
    spans.find((span) => span.lane !== "queue" && span.from <= at && at <= span.to)?.retry ?? 0;
  const rows: { name: string; spans: Span[]; ticks: number[] }[] = [
    ...LANES.map((lane) => ({
      name: t(`lane.${lane}`),
      spans: spans.filter((span) => span.lane === lane && span.retry === 0),
      ticks: lane === "scrape" ? ticks.filter((at) => retryOf(at) === 0) : [],
    })),
    ...retries.map((number) => ({
      name: t("lane.retry", { number }),
      spans: spans.filter((span) => span.retry === number),
      ticks: ticks.filter((at) => retryOf(at) === number),
    })),
  ];
  const nameOf = ({ lane, retry }: Span) =>
    retry ? `${t("lane.retry", { number: retry })} · ${t(`lane.${lane}`)}` : t(`lane.${lane}`);
  return (
    <figure className="lanes" aria-label={t("mission.timeline")}>
      <div aria-hidden="true">
        {rows.map((row) => (
          <div className="lane" key={row.name}>
            <Text size="xs" c="dimmed">
              {row.name}
            </Text>
            <div className="lane-track">
              {row.spans.map((span) => (
                <span
                  key={`${span.lane}${span.from}`}
                  className="lane-span"
                  title={`${nameOf(span)}: ${format.span((span.to - span.from) / 1000)}`}
                  data-lane={span.lane}
                  data-failed={span.failed}
                  data-open={span.open}
                  style={{ left: place(span.from - from), width: place(span.to - span.from) }}
                />
              ))}
              {row.ticks.map((at) => (
                <span
                  key={at}
                  className="lane-tick"
                  title={format.clock(at)}
                  style={{ left: place(at - from) }}
                />
              ))}
            </div>
          </div>
        ))}
        <div className="lane-times">
          <span>{format.clock(from)}</span>
          <span>{format.clock(to)}</span>
        </div>
      </div>
      <details>
        <summary>{t("chart.numbers")}</summary>
        <Table>
          <Table.Tbody>
            {spans.map((span) => (
              <Table.Tr key={`${span.retry}${span.lane}${span.from}`}>
                <Table.Td>{nameOf(span)}</Table.Td>
                <Table.Td>{format.time(new Date(span.from).toISOString())}</Table.Td>
                <Table.Td>{format.span((span.to - span.from) / 1000)}</Table.Td>
                <Table.Td>
                  {span.failed ? t("status.failed") : span.open ? t("status.running") : ""}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </details>
    </figure>
  );
}
