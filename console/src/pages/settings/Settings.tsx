import { useLingui } from "@lingui/react";
import { Button, Group, type MantineColorScheme, NativeSelect, Paper, Stack, Switch, Text, TextInput, Title, useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Settings as Found, changeSettings, settings } from "../../api/operations";
import { useMay } from "../../app/access";
import { LANGUAGES, type Language, choose, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Failed, Loaded, PageHead } from "../../parts/States";
import { useAct } from "../../parts/act";
import { Keys } from "./Keys";

export default function Settings() {
  const t = useT();
  const query = useQuery(settings);
  const mayChange = useMay("admin");
  return (
    <>
      <PageHead title={t("nav.settings")} />
      <Stack>
        <Loaded query={query}>{(found) => <Missions found={found} mayChange={mayChange} />}</Loaded>
        <Look />
        {mayChange && <Keys />}
      </Stack>
    </>
  );
}

function Missions({ found, mayChange }: { found: Found; mayChange: boolean }) {
  const t = useT();
  const format = useFormat();
  const [sessionLimit, setSessionLimit] = useState(String(found.session_limit));
  const [maxRetries, setMaxRetries] = useState(String(found.max_retries));
  const [autoStart, setAutoStart] = useState(found.auto_start);
  const save = useAct(changeSettings, [["settings"]]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate({ session_limit: Number(sessionLimit), max_retries: Number(maxRetries), auto_start: autoStart });
  };
  return (
    <Paper withBorder p="md">
      <form onSubmit={submit}>
        <Stack maw={480}>
          <Title order={2} size="h4">
            {t("nav.missions")}
          </Title>
          <TextInput
            type="number"
            min={1}
            max={1000}
            required
            label={`${t("settings.sessionLimit")} (session_limit)`}
            description={t("settings.sessionLimitHow")}
            value={sessionLimit}
            disabled={!mayChange}
            onChange={(event) => setSessionLimit(event.currentTarget.value)}
          />
          <TextInput
            type="number"
            min={0}
            max={100}
            required
            label={`${t("settings.maxRetries")} (max_retries)`}
            description={t("settings.maxRetriesHow")}
            value={maxRetries}
            disabled={!mayChange}
            onChange={(event) => setMaxRetries(event.currentTarget.value)}
          />
          <Switch label={t("settings.autoStart")} checked={autoStart} disabled={!mayChange} onChange={(event) => setAutoStart(event.currentTarget.checked)} />
          {save.error && <Failed error={save.error} />}
          {save.isSuccess && <Text size="sm" className="good" role="status">{t("settings.saved")}</Text>}
          {mayChange ? (
            <Group>
              <Button type="submit" loading={save.isPending}>
                {t("settings.save")}
              </Button>
            </Group>
          ) : (
            <Text c="dimmed">{t("state.forbiddenHow")}</Text>
          )}
        </Stack>
      </form>
      <Text size="sm" c="dimmed" mt="md">
        <b>{t("settings.retention")}:</b> {t("settings.retentionHow")}
      </Text>
      <details className="fixed">
        <summary>{t("settings.fixed")}</summary>
        <dl className="facts">
          {Object.entries(found.fixed).map(([name, value]) => (
            <div key={name}>
              <dt className="code">{name}</dt>
              <dd>{format.number(value)}</dd>
            </div>
          ))}
        </dl>
      </details>
    </Paper>
  );
}

const THEMES: MantineColorScheme[] = ["auto", "light", "dark"];

function Look() {
  const t = useT();
  const { i18n } = useLingui();
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  return (
    <Paper withBorder p="md">
      <Title order={2} size="h4" mb="sm">
        {t("settings.look")}
      </Title>
      <Group>
        <NativeSelect
          label={t("nav.language")}
          value={i18n.locale}
          data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
          onChange={(event) => void choose(event.currentTarget.value as Language)}
        />
        <NativeSelect
          label={t("settings.theme")}
          value={colorScheme}
          data={THEMES.map((one) => ({ value: one, label: t(`settings.theme.${one}`) }))}
          onChange={(event) => setColorScheme(event.currentTarget.value as MantineColorScheme)}
        />
      </Group>
    </Paper>
  );
}
