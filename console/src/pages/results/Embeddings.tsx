import { Button, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";
import type { Schemas } from "../../api/client";
import { embeddingStats, searchTexts } from "../../api/results";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { type Columns, DataTable } from "../../parts/List";
import { FactList, Part } from "../../parts/Part";
import { Empty, Failed, Loaded } from "../../parts/States";
import { useStatusName } from "../../parts/Status";
import { Begin } from "./Begin";

type Stats = Schemas["EmbeddingStats"];

const FIRST = "regente embeddings add textos.jsonl";

export function Embeddings() {
  const stats = useQuery(embeddingStats);
  return (
    <Loaded query={stats}>
      {(found) => (
        <Stack>
          <There stats={found} />
          {found.vectors > 0 && <Search models={found.models.map(({ model }) => model)} />}
        </Stack>
      )}
    </Loaded>
  );
}

function There({ stats }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const tasks = Object.entries(stats.tasks).filter(([, count]) => count > 0);
  const columns: Columns<Stats["models"][number]> = [
    [t("embeddings.model"), (one) => <span className="code">{one.model}</span>, "breaks"],
    [t("embeddings.dimensions"), (one) => format.number(one.dimensions), "right"],
    [t("embeddings.vectors"), (one) => format.number(one.vectors), "right"],
    [t("embeddings.newest"), (one) => one.newest_at && format.time(one.newest_at), "nowrap"],
  ];
  return (
    <Part title={t("embeddings.there")}>
      {stats.vectors === 0 && <Begin command={FIRST}>{t("embeddings.none")}</Begin>}
      <FactList
        facts={[
          [t("embeddings.vectors"), format.number(stats.vectors)],
          [t("embeddings.storage"), stats.storage],
          [
            t("embeddings.size"),
            t("embeddings.kilobytes", { size: format.number(stats.bytes / 1024) }),
          ],
          ...tasks.map(
            ([status, count]) =>
              [t("embeddings.tasks", { status: nameOf(status) }), format.number(count)] as const,
          ),
        ]}
      />
      {stats.models.length > 0 && (
        <div className="below">
          <DataTable
            label={t("embeddings.models")}
            columns={columns}
            rows={stats.models}
            keyOf={({ model }) => model}
            minWidth={480}
          />
        </div>
      )}
    </Part>
  );
}

// A text that is not embedded yet costs a call to the provider: it is asked for by a button, never by typing, and by operators.
function Search({ models }: { models: string[] }) {
  const t = useT();
  const maySearch = useMay("operator");
  const search = useMutation({ mutationFn: searchTexts });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = String(given.get("text") ?? "").trim();
    if (text) search.mutate({ text, model: String(given.get("model") ?? "") || null });
  };
  if (!maySearch) return <Text c="dimmed">{t("embeddings.operators")}</Text>;
  return (
    <Part title={t("embeddings.search")}>
      <search aria-label={t("embeddings.search")}>
        <form onSubmit={submit}>
          <Group align="flex-end" gap="xs" mb="sm">
            <TextInput
              size="sm"
              name="text"
              required
              withAsterisk={false}
              maxLength={32_000}
              label={t("embeddings.text")}
              className="wide"
            />
            <NativeSelect size="sm" name="model" label={t("embeddings.model")} data={models} />
            <Button size="sm" type="submit" loading={search.isPending}>
              {t("embeddings.find")}
            </Button>
          </Group>
        </form>
      </search>
      {search.error && <Failed error={search.error} />}
      {search.data && <Found items={search.data.items} />}
    </Part>
  );
}

function Found({ items }: { items: Schemas["FoundText"][] }) {
  const t = useT();
  const format = useFormat();
  const columns: Columns<Schemas["FoundText"]> = [
    [t("embeddings.similarity"), (one) => format.percent(one.similarity), "right nowrap"],
    [
      t("embeddings.text"),
      (one) => (one.text.length > 600 ? `${one.text.slice(0, 599)}…` : one.text),
      "breaks",
    ],
    [t("results.created"), (one) => format.time(one.created_at), "nowrap"],
  ];
  if (!items.length) return <Empty>{t("embeddings.nothing")}</Empty>;
  return (
    <DataTable
      label={t("embeddings.found")}
      columns={columns}
      rows={items}
      keyOf={({ id }) => id}
      minWidth={480}
    />
  );
}
