// Runtime settings. Sends only the edited fields: others may have changed since the form was loaded.
import { Button, Group, Paper, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import type { FormEvent } from "react";
import { changeSettings, type Settings, settingsKey } from "../../api/settings";
import { useAction } from "../../components/ActionButton";
import { ErrorAlert } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { type Draft, useDraft } from "./useDraft";

const HOUR_IN_DAYS = 1 / 24;

function useDrafts(found: Settings) {
  return {
    session_limit: useDraft(String(found.session_limit)),
    max_retries: useDraft(String(found.max_retries)),
    auto_start: useDraft(found.auto_start),
    retention_days: useDraft(String(found.retention_days)),
  };
}

type Drafts = ReturnType<typeof useDrafts>;

const number = ({ isEdited, value }: Draft<string>) => (isEdited ? Number(value) : null);

const changedSettings = (drafts: Drafts) => ({
  session_limit: number(drafts.session_limit),
  max_retries: number(drafts.max_retries),
  auto_start: drafts.auto_start.isEdited ? drafts.auto_start.value : null,
  retention_days: number(drafts.retention_days),
});

export function SettingsForm({ found, mayChange }: { found: Settings; mayChange: boolean }) {
  const t = useT();
  const drafts = useDrafts(found);
  const save = useAction(changeSettings, [settingsKey]);
  const anyEdited = Object.values(drafts).some(({ isEdited }) => isEdited);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { session_limit, max_retries, auto_start, retention_days } = drafts;
    const sent = () => {
      for (const draft of [session_limit, max_retries, retention_days]) draft.reset(draft.value);
      auto_start.reset(auto_start.value);
    };
    save.mutate(changedSettings(drafts), { onSuccess: sent });
  };
  const field = { mayChange, isSaving: save.isPending };
  const isShorterRetention =
    drafts.retention_days.value !== "" &&
    Number(drafts.retention_days.value) < found.retention_days;
  return (
    <Paper withBorder p="md">
      <form onSubmit={submit}>
        <Stack maw={480}>
          <Title order={2} size="h4">
            {t("nav.missions")}
          </Title>
          <NumberField
            {...field}
            name="session_limit"
            draft={drafts.session_limit}
            stored={found.session_limit}
            min={1}
            max={1000}
            label={t("settings.sessionLimit")}
            how={t("settings.sessionLimitHelp")}
          />
          <NumberField
            {...field}
            name="max_retries"
            draft={drafts.max_retries}
            stored={found.max_retries}
            min={0}
            max={100}
            label={t("settings.maxRetries")}
            how={t("settings.maxRetriesHelp")}
          />
          <Switch
            label={t("settings.autoStart")}
            checked={drafts.auto_start.value}
            disabled={!mayChange}
            onChange={(event) => drafts.auto_start.set(event.currentTarget.checked)}
          />
          <Title order={2} size="h4">
            {t("settings.retention")}
          </Title>
          <NumberField
            {...field}
            name="retention_days"
            draft={drafts.retention_days}
            stored={found.retention_days}
            min={HOUR_IN_DAYS}
            max={36_500}
            step="any"
            label={t("settings.retentionDays")}
            how={t("settings.retentionHelp")}
          />
          {isShorterRetention && (
            <Text size="sm" className="bad" role="status">
              {t("settings.retentionLess")}
            </Text>
          )}
          {save.error && <ErrorAlert error={save.error} />}
          {save.isSuccess && !anyEdited && (
            <Text size="sm" className="good" role="status">
              {t("settings.saved")}
            </Text>
          )}
          {mayChange ? (
            <Group>
              <Button type="submit" loading={save.isPending} disabled={!anyEdited}>
                {t("settings.save")}
              </Button>
            </Group>
          ) : (
            <Text c="dimmed">{t("state.forbiddenHelp")}</Text>
          )}
        </Stack>
      </form>
      <FixedParameters fixed={found.fixed} />
    </Paper>
  );
}

interface NumberFieldProps {
  name: string;
  label: string;
  how: string;
  draft: Draft<string>;
  stored: number;
  min: number;
  max: number;
  step?: "any";
  mayChange: boolean;
  isSaving: boolean;
}

function NumberField({
  name,
  label,
  how,
  draft,
  stored,
  mayChange,
  isSaving,
  ...limits
}: NumberFieldProps) {
  const t = useT();
  const format = useFormat();
  return (
    <div>
      <TextInput
        type="number"
        required
        {...limits}
        label={`${label} (${name})`}
        description={how}
        value={draft.value}
        disabled={!mayChange}
        onChange={(event) => draft.set(event.currentTarget.value)}
      />
      {draft.hasChangedElsewhere && !isSaving && (
        <Group gap="xs" mt={4} role="status">
          <Text size="sm">{t("settings.changedElsewhere", { value: format.number(stored) })}</Text>
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`${label}: ${t("settings.useStored")}`}
            onClick={() => draft.reset()}
          >
            {t("settings.useStored")}
          </Button>
        </Group>
      )}
    </div>
  );
}

function FixedParameters({ fixed }: { fixed: Settings["fixed"] }) {
  const t = useT();
  const format = useFormat();
  return (
    <details className="fixed">
      <summary>{t("settings.fixed")}</summary>
      <dl className="descriptions">
        {Object.entries(fixed).map(([name, value]) => (
          <div key={name}>
            <dt className="code">{name}</dt>
            <dd>{format.number(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
