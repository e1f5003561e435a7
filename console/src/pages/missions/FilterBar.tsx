import { Button, Group, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import { missionCountsQuery } from "../../api/missions";
import { useStatusName } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { CHECKPOINTS, filterOf, isEmpty, MEDIA_TYPES, STATUSES, withParam } from "./filter";

export function FilterBar() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const set = (name: string, ...values: string[]) =>
    setSearch((now) => withParam(now, name, values), { replace: true });
  return (
    <Group gap="xs" mb="sm" align="flex-end" role="search" aria-label={t("filter.label")}>
      <StatusChips
        chosen={search.getAll("status")}
        choose={(statuses) => set("status", ...statuses)}
      />
      <NativeSelect
        size="xs"
        aria-label={t("mission.checkpoint")}
        value={search.get("checkpoint") ?? ""}
        data={[
          { value: "", label: t("mission.checkpoint") },
          ...CHECKPOINTS.map((one) => ({ value: one, label: t(`checkpoint.${one}`) })),
        ]}
        onChange={(event) => set("checkpoint", event.currentTarget.value)}
      />
      <NativeSelect
        size="xs"
        aria-label={t("mission.media")}
        value={search.get("media") ?? ""}
        data={[
          { value: "", label: t("mission.media") },
          ...MEDIA_TYPES.map((one) => ({ value: one, label: t(`media.${one}`) })),
        ]}
        onChange={(event) => set("media", event.currentTarget.value)}
      />
      <DebouncedInput
        label={t("mission.language")}
        value={search.get("language") ?? ""}
        change={(value) => set("language", value)}
      />
      <DebouncedInput
        label={t("mission.error")}
        value={search.get("code") ?? ""}
        change={(value) => set("code", value)}
      />
      {/* Keeps both dates on one line, with the label before the field. */}
      <Group gap="xs" wrap="nowrap">
        {(["from", "to"] as const).map((name) => (
          <label key={name} className="inline-label">
            {t(`create.${name}`)}
            <TextInput
              size="xs"
              type="date"
              value={search.get(name) ?? ""}
              onChange={(event) => set(name, event.currentTarget.value)}
            />
          </label>
        ))}
      </Group>
      {!isEmpty(filterOf(search)) && (
        <Button
          size="xs"
          variant="subtle"
          onClick={() => setSearch(new URLSearchParams(), { replace: true })}
        >
          {t("filter.clear")}
        </Button>
      )}
    </Group>
  );
}

function StatusChips({
  chosen,
  choose,
}: {
  chosen: string[];
  choose: (statuses: string[]) => void;
}) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const counts = useQuery(missionCountsQuery);
  return (
    <fieldset className="chips" aria-label={t("mission.status")}>
      {STATUSES.map((status) => {
        const on = chosen.includes(status);
        const count = counts.data?.[status];
        return (
          <Button
            key={status}
            size="xs"
            variant={on ? "filled" : "default"}
            aria-pressed={on}
            onClick={() =>
              choose(on ? chosen.filter((one) => one !== status) : [...chosen, status])
            }
          >
            {nameOf(status)}
            {count !== undefined && (
              <span className="chip-count">{`${format.number(count)}${counts.data?.capped.includes(status) ? "+" : ""}`}</span>
            )}
          </Button>
        );
      })}
    </fieldset>
  );
}

// Calls change after a pause in typing.
function DebouncedInput({
  label,
  value,
  change,
}: {
  label: string;
  value: string;
  change: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const later = setTimeout(() => change(text), 350);
    return () => clearTimeout(later);
  });
  return (
    <TextInput
      size="xs"
      w={110}
      aria-label={label}
      placeholder={label}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  );
}
