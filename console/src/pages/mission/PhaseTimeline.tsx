import { Table, Text } from "@mantine/core";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { PHASES, phasesOf, retryCount, type Span, type TimelineEvent } from "./phases";

export function PhaseTimeline({
  events,
  ended,
}: {
  events: TimelineEvent[];
  ended: string | null;
}) {
  const t = useT();
  const format = useFormat();
  const { spans, ticks } = phasesOf(events, ended ? Date.parse(ended) : Date.now());
  if (!spans.length) return null;
  const from = Math.min(...spans.map((span) => span.from));
  const to = Math.max(...spans.map((span) => span.to));
  const place = (value: number) => `${(100 * value) / Math.max(1, to - from)}%`;
  const retries = Array.from({ length: retryCount(spans) }, (_, index) => index + 1);
  const retryOf = (at: number) =>
    spans.find((span) => span.phase !== "queue" && span.from <= at && at <= span.to)?.retry ?? 0;
  const rows: { name: string; spans: Span[]; ticks: number[] }[] = [
    ...PHASES.map((phase) => ({
      name: t(`phase.${phase}`),
      spans: spans.filter((span) => span.phase === phase && span.retry === 0),
      ticks: phase === "scrape" ? ticks.filter((at) => retryOf(at) === 0) : [],
    })),
    ...retries.map((number) => ({
      name: t("phase.retry", { number }),
      spans: spans.filter((span) => span.retry === number),
      ticks: ticks.filter((at) => retryOf(at) === number),
    })),
  ];
  const nameOf = ({ phase, retry }: Span) =>
    retry ? `${t("phase.retry", { number: retry })} · ${t(`phase.${phase}`)}` : t(`phase.${phase}`);
  return (
    <figure className="phases" aria-label={t("mission.timeline")}>
      <div aria-hidden="true">
        {rows.map((row) => (
          <div className="phase" key={row.name}>
            <Text size="xs" c="dimmed">
              {row.name}
            </Text>
            <div className="phase-track">
              {row.spans.map((span) => (
                <span
                  key={`${span.phase}${span.from}`}
                  className="phase-span"
                  title={`${nameOf(span)}: ${format.duration((span.to - span.from) / 1000)}`}
                  data-phase={span.phase}
                  data-failed={span.failed}
                  data-open={span.open}
                  style={{ left: place(span.from - from), width: place(span.to - span.from) }}
                />
              ))}
              {row.ticks.map((at) => (
                <span
                  key={at}
                  className="phase-tick"
                  title={format.clock(at)}
                  style={{ left: place(at - from) }}
                />
              ))}
            </div>
          </div>
        ))}
        <div className="phase-times">
          <span>{format.clock(from)}</span>
          <span>{format.clock(to)}</span>
        </div>
      </div>
      <details>
        <summary>{t("chart.numbers")}</summary>
        <Table>
          <Table.Tbody>
            {spans.map((span) => (
              <Table.Tr key={`${span.retry}${span.phase}${span.from}`}>
                <Table.Td>{nameOf(span)}</Table.Td>
                <Table.Td>{format.time(new Date(span.from).toISOString())}</Table.Td>
                <Table.Td>{format.duration((span.to - span.from) / 1000)}</Table.Td>
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
