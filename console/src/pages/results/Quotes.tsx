import { Group, NativeSelect, Progress, Stack } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { lotList, lotOne, type Quote, type QuoteLot, quoteList } from "../../api/results";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { type Columns, DataTable, Paged } from "../../parts/List";
import { FactList, Part } from "../../parts/Part";
import { Empty, Loaded, PageHead } from "../../parts/States";
import { Status, useStatusName } from "../../parts/Status";
import { Begin } from "./Begin";
import { chosenOf, stateName } from "./states";

const STATES = ["PENDING", "PROCESSING", "DONE", "ERROR", "CANCELLED"] as const;
const FIRST = 'regente quotes submit "Cadeira de escritório ergonômica" --lot "inventário"';

export function Quotes() {
  const t = useT();
  return (
    <Stack>
      <Part title={t("lots.title")}>
        <Lots />
      </Part>
      <QuoteTable title={t("quotes.all")} />
    </Stack>
  );
}

function Lots() {
  const t = useT();
  const format = useFormat();
  const list = useInfiniteQuery(lotList);
  const columns: Columns<QuoteLot> = [
    [t("lots.name"), (one) => <Link href={`/results/lots/${one.id}`}>{one.name}</Link>, "breaks"],
    [t("mission.status"), (one) => <Status of={one.status} />],
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
    <Paged list={list} empty={<Empty>{t("lots.none")}</Empty>}>
      {(lots) => (
        <DataTable label={t("lots.title")} columns={columns} rows={lots} keyOf={({ id }) => id} />
      )}
    </Paged>
  );
}

export function LotPage({ id }: { id: number }) {
  const t = useT();
  const format = useFormat();
  const lot = useQuery(lotOne(id));
  return (
    <Loaded query={lot}>
      {(one) => (
        <>
          <PageHead title={t("lots.one", { name: one.name })}>
            <Status of={one.status} />
          </PageHead>
          <Stack>
            <Part title={t("lots.worth")}>
              <FactList
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
                  [t("results.eta"), one.eta_seconds !== null && format.span(one.eta_seconds)],
                  [t("results.created"), format.time(one.created_at)],
                  [t("mission.finished"), one.finished_at && format.time(one.finished_at)],
                ]}
              />
            </Part>
            <QuoteTable title={t("quotes.ofLot")} lot={id} />
          </Stack>
        </>
      )}
    </Loaded>
  );
}

function QuoteTable({ title, lot }: { title: string; lot?: number }) {
  const t = useT();
  const nameOf = useStatusName();
  const [search, setSearch] = useSearchParams();
  const chosen = chosenOf(STATES, search.get("status"));
  const list = useInfiniteQuery(
    useMemo(
      () => quoteList({ ...(lot ? { lot_id: lot } : {}), ...(chosen ? { status: [chosen] } : {}) }),
      [lot, chosen],
    ),
  );
  const columns = useColumns(lot === undefined);
  return (
    <Part title={title}>
      <Group mb="xs">
        <NativeSelect
          size="xs"
          aria-label={t("quotes.filter")}
          value={chosen ?? ""}
          data={[
            { value: "", label: t("quotes.any") },
            ...STATES.map((one) => ({ value: one, label: nameOf(stateName(one)) })),
          ]}
          onChange={({ currentTarget: { value } }) =>
            setSearch(value ? { status: value } : {}, { replace: true })
          }
        />
      </Group>
      <Paged
        list={list}
        empty={
          chosen ? (
            <Empty>{t("quotes.noneMatch")}</Empty>
          ) : (
            <Begin command={FIRST}>{t("quotes.none")}</Begin>
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
      </Paged>
    </Part>
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
    [t("quotes.description"), (one) => <Described quote={one} />, "breaks"],
    [t("mission.status"), (one) => <Status of={stateName(one.status)} />],
    [
      t("quotes.value"),
      (one) => one.value !== null && format.money(one.value, one.currency),
      "right nowrap",
    ],
    [t("mission.checkpoint"), (one) => <Standing quote={one} />],
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

function Described({ quote }: { quote: Quote }) {
  return (
    <>
      {quote.description.length > 120 ? `${quote.description.slice(0, 119)}…` : quote.description}
      {quote.reference && <span className="quiet"> ({quote.reference})</span>}
    </>
  );
}

function Standing({ quote }: { quote: Quote }) {
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
