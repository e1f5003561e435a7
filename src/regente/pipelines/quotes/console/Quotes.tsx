import { type Columns, DataTable, PagedList } from "@console/components/DataTable";
import { EmptyWithCommand } from "@console/components/EmptyWithCommand";
import { DescriptionList, Section } from "@console/components/Section";
import { EmptyState, PageHeader, QueryView } from "@console/components/States";
import { StatusBadge, useStatusName } from "@console/components/StatusBadge";
import { parseOption, toTaskStatus } from "@console/components/statuses";
import { useFormat } from "@console/i18n/format";
import { Group, NativeSelect, Progress, Stack } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { useT } from "./messages";
import { lotListQuery, lotQuery, type Quote, type QuoteLot, quoteListQuery } from "./queries";

const STATES = ["PENDING", "PROCESSING", "DONE", "ERROR", "CANCELLED"] as const;
const COMMAND = 'regente quotes submit "Cadeira de escritório ergonômica" --lot "inventário"';

export function Quotes() {
  const t = useT();
  return (
    <Stack>
      <Section title={t("lots.title")}>
        <Lots />
      </Section>
      <QuoteTable title={t("quotes.all")} />
    </Stack>
  );
}

function Lots() {
  const t = useT();
  const format = useFormat();
  const list = useInfiniteQuery(lotListQuery);
  const columns: Columns<QuoteLot> = [
    [t("lots.name"), (one) => <Link href={`/results/lots/${one.id}`}>{one.name}</Link>, "breaks"],
    [t("mission.status"), (one) => <StatusBadge status={one.status} />],
    [
      t("lots.quoted"),
      (one) =>
        t("results.share", { part: format.number(one.quoted), all: format.number(one.total) }),
      "right",
    ],
    [
      t("quotes.value"),
      (one) => one.value !== null && format.money(one.value, one.currency),
      "right nowrap",
    ],
    [t("results.created"), (one) => format.time(one.created_at), "nowrap"],
  ];
  return (
    <PagedList list={list} empty={<EmptyState>{t("lots.none")}</EmptyState>}>
      {(lots) => (
        <DataTable label={t("lots.title")} columns={columns} rows={lots} keyOf={({ id }) => id} />
      )}
    </PagedList>
  );
}

export function LotPage({ id }: { id: number }) {
  const t = useT();
  const format = useFormat();
  const lot = useQuery(lotQuery(id));
  return (
    <QueryView query={lot}>
      {(one) => (
        <>
          <PageHeader title={t("lots.one", { name: one.name })}>
            <StatusBadge status={one.status} />
          </PageHeader>
          <Stack>
            <Section title={t("lots.total")}>
              <DescriptionList
                facts={[
                  [
                    t("quotes.value"),
                    one.value === null ? (
                      "–"
                    ) : (
                      <strong key="value">{format.money(one.value, one.currency)}</strong>
                    ),
                  ],
                  [
                    t("lots.quoted"),
                    t("results.share", {
                      part: format.number(one.quoted),
                      all: format.number(one.total),
                    }),
                  ],
                  [t("status.pending"), format.number(one.pending)],
                  [t("status.running"), format.number(one.processing)],
                  [t("status.failed"), format.number(one.failed)],
                  [t("status.canceled"), one.cancelled > 0 && format.number(one.cancelled)],
                  [t("results.eta"), one.eta_seconds !== null && format.duration(one.eta_seconds)],
                  [t("results.created"), format.time(one.created_at)],
                  [t("mission.finished"), one.finished_at && format.time(one.finished_at)],
                ]}
              />
            </Section>
            <QuoteTable title={t("quotes.ofLot")} lot={id} />
          </Stack>
        </>
      )}
    </QueryView>
  );
}

function QuoteTable({ title, lot }: { title: string; lot?: number }) {
  const t = useT();
  const nameOf = useStatusName();
  const [search, setSearch] = useSearchParams();
  const chosen = parseOption(STATES, search.get("status"));
  const list = useInfiniteQuery(
    useMemo(
      () =>
        quoteListQuery({
          ...(lot ? { lot_id: lot } : {}),
          ...(chosen ? { status: [chosen] } : {}),
        }),
      [lot, chosen],
    ),
  );
  const columns = useColumns(lot === undefined);
  return (
    <Section title={title}>
      <Group mb="xs">
        <NativeSelect
          size="xs"
          aria-label={t("quotes.filter")}
          value={chosen ?? ""}
          data={[
            { value: "", label: t("quotes.any") },
            ...STATES.map((one) => ({ value: one, label: nameOf(toTaskStatus(one)) })),
          ]}
          onChange={({ currentTarget: { value } }) =>
            setSearch(value ? { status: value } : {}, { replace: true })
          }
        />
      </Group>
      <PagedList
        list={list}
        empty={
          chosen ? (
            <EmptyState>{t("quotes.noneMatch")}</EmptyState>
          ) : (
            <EmptyWithCommand command={COMMAND}>{t("quotes.none")}</EmptyWithCommand>
          )
        }
      >
        {(quotes) => (
          <DataTable
            label={title}
            columns={columns}
            rows={quotes}
            keyOf={({ id }) => id}
            minWidth={760}
          />
        )}
      </PagedList>
    </Section>
  );
}

function useColumns(withLot: boolean): Columns<Quote> {
  const t = useT();
  const format = useFormat();
  const lot: Columns<Quote> = withLot
    ? [
        [
          t("quotes.lot"),
          (one) => one.batch_id && <Link href={`/results/lots/${one.batch_id}`}>{one.lot}</Link>,
          "breaks",
        ],
      ]
    : [];
  return [
    [t("mission.id"), (one) => <Link href={`/results/quotes/${one.id}`}>{one.id}</Link>],
    [t("quotes.description"), (one) => <QuoteDescription quote={one} />, "breaks"],
    [t("mission.status"), (one) => <StatusBadge status={toTaskStatus(one.status)} />],
    [
      t("quotes.value"),
      (one) => one.value !== null && format.money(one.value, one.currency),
      "right nowrap",
    ],
    [t("mission.checkpoint"), (one) => <QuoteCheckpoint quote={one} />],
    ...lot,
    [
      t("mission.error"),
      (one) =>
        one.error_code && (
          <span className="code" title={one.error_message ?? ""}>
            {one.error_code}
          </span>
        ),
    ],
  ];
}

function QuoteDescription({ quote }: { quote: Quote }) {
  return (
    <>
      {quote.description.length > 120 ? `${quote.description.slice(0, 119)}…` : quote.description}
      {quote.reference && <span className="quiet"> ({quote.reference})</span>}
    </>
  );
}

function QuoteCheckpoint({ quote }: { quote: Quote }) {
  if (!quote.processing_checkpoint) return null;
  return (
    <>
      <span className="code">{quote.processing_checkpoint}</span>
      {quote.status === "PROCESSING" && (
        <Progress value={quote.progress_percentage} size="sm" aria-hidden="true" />
      )}
    </>
  );
}
