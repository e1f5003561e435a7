import { Button, Code, Group } from "@mantine/core";
import { useState } from "react";
import { useT } from "../i18n";

// A command to be run elsewhere, and a button that takes it along.
export function Copyable({ text }: { text: string }) {
  const t = useT();
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <Group gap="xs">
      <Code className="command">{text}</Code>
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => void copy()}
        aria-label={`${t("act.copy")}: ${text}`}
      >
        <span aria-live="polite">{t(copied ? "act.copied" : "act.copy")}</span>
      </Button>
    </Group>
  );
}
