import { batchesKey, failuresKey, reprocessBatch, resumeBatch } from "@console/api/engine";
import { statsKey } from "@console/api/overview";
import { resultsKey } from "@console/api/pages";
import { useHasRole } from "@console/app/session";
import { ActionButton } from "@console/components/ActionButton";
import { type Columns, DataTable, PagedList } from "@console/components/DataTable";
import { EmptyWithCommand } from "@console/components/EmptyWithCommand";
import { DescriptionList, Section } from "@console/components/Section";
import { EmptyState, PageHeader, QueryView } from "@console/components/States";
import { StatusBadge } from "@console/components/StatusBadge";
import { parseOption } from "@console/components/statuses";
import { useFormat } from "@console/i18n/format";
import { useSilence } from "@console/live/useSilence";
import { Alert, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { useT } from "./messages";
import {
  type DocumentResult,
  documentListQuery,
  type Execution,
  executionListQuery,
  executionQuery,
  executionStatusQuery,
} from "./queries";

const STATES = ["PENDENTE", "PROCESSANDO", "CONCLUIDO", "ERRO", "PULADO", "CANCELADO"] as const;
const COMMAND = "regente documents classify ./inbox";
const AFFECTED_QUERIES = [resultsKey("documents"), batchesKey, failuresKey, statsKey];

export function Executions() {
  const t = useT();
  const format = useFormat();
  const list = useInfiniteQuery(executionListQuery);
  const columns: Columns<Execution> = [
    [
      t("executions.name"),
      (one) => <Link href={`/results/executions/${one.id}`}>{one.nome}</Link>,
      "breaks",
    ],
    [t("executions.project"), (one) => one.projeto],
    [t("mission.status"), (one) => <StatusBadge status={one.status} />],
    [t("executions.progress"), (one) => `${format.percent(one.progresso_pct / 100)}`, "right"],
    [t("executions.documents"), (one) => format.number(one.total), "right"],
    ["ERRO", (one) => format.number(one.documentos.ERRO), "right"],
    ["PULADO", (one) => format.number(one.documentos.PULADO), "right"],
    [t("results.created"), (one) => format.time(one.criado_em), "nowrap"],
  ];
  return (
    <Section title={t("executions.title")}>
      <PagedList
        list={list}
        empty={<EmptyWithCommand command={COMMAND}>{t("executions.none")}</EmptyWithCommand>}
      >
        {(executions) => (
          <DataTable
            label={t("executions.title")}
            columns={columns}
            rows={executions}
            keyOf={({ id }) => id}
            minWidth={760}
          />
        )}
      </PagedList>
    </Section>
  );
}

export function ExecutionPage({ id }: { id: number }) {
  const t = useT();
  const execution = useQuery(executionQuery(id));
  return (
    <QueryView query={execution}>
      {(one) => (
        <>
          <PageHeader title={t("executions.one", { name: one.nome })}>
            <StatusBadge status={one.status} />
          </PageHeader>
          <Stack>
            {one.status === "EM_ANDAMENTO" && <SilenceWarning key={id} execution={one} />}
            {one.status === "TRAVADO" || one.status === "ERRO" ? (
              <StalledAlert execution={one} />
            ) : (
              one.documentos.ERRO > 0 && <ExecutionActions execution={one} />
            )}
            <Counts execution={one} />
            <Documents id={id} />
          </Stack>
        </>
      )}
    </QueryView>
  );
}

function ExecutionActions({ execution }: { execution: Execution }) {
  const t = useT();
  const mayAct = useHasRole("operator");
  if (!mayAct) return null;
  const noErrors = execution.documentos.ERRO === 0;
  const look =
    execution.status === "TRAVADO"
      ? ({ color: "orange", variant: "outline" } as const)
      : ({ variant: "default" } as const);
  return (
    <Group gap="xs">
      {execution.status === "TRAVADO" && (
        <ActionButton
          size="xs"
          {...look}
          action={() => resumeBatch(execution.id)}
          invalidates={AFFECTED_QUERIES}
        >
          {t("batches.resume")}
        </ActionButton>
      )}
      <ActionButton
        size="xs"
        {...look}
        disabled={noErrors}
        title={noErrors ? t("batches.noErrors") : undefined}
        action={() => reprocessBatch(execution.id)}
        invalidates={AFFECTED_QUERIES}
      >
        {t("batches.reprocess")}
      </ActionButton>
    </Group>
  );
}

function StalledAlert({ execution }: { execution: Execution }) {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery(executionStatusQuery(execution.id));
  const failed = execution.status === "ERRO";
  return (
    <Alert color={failed ? "red" : "orange"} role="alert" title={execution.status}>
      <Text size="sm">
        {failed
          ? t("executions.gaveUp", { resumes: execution.tentativas_retry })
          : t("batches.stalled", { ago: format.ago(execution.ultimo_heartbeat) })}
      </Text>
      {data?.rota_origem && (
        <Text size="sm">
          {t("batches.route")} <span className="code">{data.rota_origem}</span>
        </Text>
      )}
      {data?.motivo && <Text size="sm">{data.motivo}</Text>}
      {data?.parado_em && (
        <Text size="sm">
          {t("executions.stoppedAt")} <span className="code">{data.parado_em.codigo}</span>{" "}
          {data.parado_em.etapa}
        </Text>
      )}
      {data?.ultimo_codigo_processado && (
        <Text size="sm">{t("batches.lastKey", { key: data.ultimo_codigo_processado })}</Text>
      )}
      <div className="below">
        <ExecutionActions execution={execution} />
      </div>
    </Alert>
  );
}

// The specification's 60 s without an event. The connection has a warning of its own.
function SilenceWarning({ execution }: { execution: Execution }) {
  const t = useT();
  const format = useFormat();
  const since = useSilence(execution.id);
  if (since === null) return null;
  return (
    <Alert color="orange" role="alert" title={t("executions.silentTitle")}>
      <Text size="sm">
        {t("executions.silent", {
          time: format.clock(since),
          ago: format.ago(execution.ultimo_heartbeat),
        })}
      </Text>
    </Alert>
  );
}

function Counts({ execution }: { execution: Execution }) {
  const t = useT();
  const format = useFormat();
  return (
    <Section title={t("executions.counts")}>
      <DescriptionList
        facts={[
          [t("executions.project"), execution.projeto],
          [t("executions.documents"), format.number(execution.total)],
          [t("executions.progress"), format.percent(execution.progresso_pct / 100)],
          ...STATES.map(
            (state) =>
              [
                state,
                execution.documentos[state] > 0 && format.number(execution.documentos[state]),
              ] as const,
          ),
          [
            t("executions.resumes"),
            execution.tentativas_retry > 0 &&
              t("results.share", { part: execution.tentativas_retry, all: execution.max_retries }),
          ],
          [
            t("results.eta"),
            execution.eta_segundos !== null &&
              execution.status === "EM_ANDAMENTO" &&
              format.duration(execution.eta_segundos),
          ],
          [t("executions.by"), execution.criado_por],
          [t("results.created"), format.time(execution.criado_em)],
          [t("mission.finished"), execution.concluido_em && format.time(execution.concluido_em)],
        ]}
      />
    </Section>
  );
}

function Documents({ id }: { id: number }) {
  const t = useT();
  const format = useFormat();
  const [search, setSearch] = useSearchParams();
  const chosen = parseOption(STATES, search.get("status"));
  const list = useInfiniteQuery(
    useMemo(() => documentListQuery(id, chosen && [chosen]), [id, chosen]),
  );
  const columns: Columns<DocumentResult> = [
    [t("executions.document"), (one) => one.codigo, "breaks"],
    [t("mission.status"), (one) => <StatusBadge status={one.status} />],
    [t("executions.class"), (one) => one.categoria],
    [
      t("executions.confidence"),
      (one) => one.confianca !== null && format.percent(one.confianca),
      "right",
    ],
    [t("executions.reason"), (one) => <Reason document={one} />, "breaks"],
    [t("results.attempts"), (one) => format.number(one.tentativas), "right"],
    [t("executions.pages"), (one) => one.paginas !== null && format.number(one.paginas), "right"],
  ];
  return (
    <Section title={t("executions.results")}>
      <Group mb="xs">
        <NativeSelect
          size="xs"
          aria-label={t("executions.filter")}
          value={chosen ?? ""}
          data={[{ value: "", label: t("batches.all") }, ...STATES]}
          onChange={({ currentTarget: { value } }) =>
            setSearch(value ? { status: value } : {}, { replace: true })
          }
        />
      </Group>
      <PagedList
        list={list}
        empty={
          <EmptyState>{t(chosen ? "executions.noneMatch" : "executions.noDocuments")}</EmptyState>
        }
      >
        {(documents) => (
          <DataTable
            label={t("executions.results")}
            columns={columns}
            rows={documents}
            keyOf={({ id }) => id}
            minWidth={820}
          />
        )}
      </PagedList>
    </Section>
  );
}

// Justification of the class, or the reason for a skip or an error.
function Reason({ document: one }: { document: DocumentResult }) {
  const [code, text] =
    one.status === "PULADO"
      ? [one.pulado_codigo, one.pulado_motivo]
      : one.status === "ERRO"
        ? [one.erro_codigo, one.erro_mensagem]
        : [null, one.justificativa];
  return (
    <>
      {code && <span className="code">{code}</span>} {text}
    </>
  );
}
