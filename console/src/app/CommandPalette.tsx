// Command palette (Ctrl K) and the dialog that lists keyboard shortcuts.
import { Kbd, Modal, Switch, TextInput } from "@mantine/core";
import { type KeyboardEvent, useState } from "react";
import { useLocation } from "wouter";
import { useT } from "../i18n";
import { HAS_MISSIONS } from "./builtins";
import { type Command, filterCommands, parseMissionId } from "./commands";
import { setSingleKeysEnabled, singleKeysEnabled } from "./keyboard";

interface DialogProps {
  opened: boolean;
  close: () => void;
  commands: Command[];
}

export function CommandPalette({ opened, close, commands }: DialogProps) {
  const t = useT();
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={t("palette.title")}
      size="lg"
      yOffset="12vh"
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <CommandList commands={commands} close={close} />
    </Modal>
  );
}

function CommandList({ commands, close }: { commands: Command[]; close: () => void }) {
  const t = useT();
  const [, navigate] = useLocation();
  const [query, setQuery] = useState("");
  const [index, setIndex] = useState(0);
  const mission = HAS_MISSIONS ? parseMissionId(query) : null;
  const found = mission
    ? [
        {
          id: "mission",
          name: t("palette.mission", { id: mission }),
          kind: "page" as const,
          run: () => navigate(`/missions/${mission}`),
        },
        ...filterCommands(commands, query),
      ]
    : filterCommands(commands, query);
  const selected = Math.min(index, Math.max(0, found.length - 1));
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) setIndex((selected + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[selected]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <TextInput
        data-autofocus
        role="combobox"
        aria-expanded
        aria-controls="palette-list"
        aria-activedescendant={found[selected] && `palette-${found[selected].id}`}
        aria-label={t("palette.search")}
        placeholder={t("palette.search")}
        value={query}
        onChange={(event) => {
          setQuery(event.currentTarget.value);
          setIndex(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div id="palette-list" role="listbox" aria-label={t("palette.title")} className="palette">
        {found.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and takes the keys
          <div
            key={command.id}
            id={`palette-${command.id}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === selected}
            ref={
              index === selected
                ? (element) => element?.scrollIntoView?.({ block: "nearest" })
                : undefined
            }
            onMouseMove={() => setIndex(index)}
            onClick={() => run(command)}
          >
            <span>{command.name}</span>
            <span className="quiet">
              {command.keys
                ? command.keys.split(" ").map((key) => (
                    <Kbd key={key} size="xs">
                      {key}
                    </Kbd>
                  ))
                : t(`palette.kind.${command.kind}`)}
            </span>
          </div>
        ))}
      </div>
      {!found.length && (
        <p className="quiet" role="status">
          {t("palette.none")}
        </p>
      )}
    </>
  );
}

export function ShortcutsDialog({ opened, close, commands }: DialogProps) {
  const t = useT();
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={t("palette.shortcuts")}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <SingleKeySwitch />
      <dl className="keys">
        {commands
          .filter(({ keys }) => keys)
          .map(({ id, name, keys }) => (
            <div key={id}>
              <dt>{name}</dt>
              <dd>
                {keys?.split(" ").map((key) => (
                  <Kbd key={key}>{key}</Kbd>
                ))}
              </dd>
            </div>
          ))}
      </dl>
    </Modal>
  );
}

function SingleKeySwitch() {
  const t = useT();
  const [on, setOn] = useState(singleKeysEnabled);
  const change = (wanted: boolean) => {
    setSingleKeysEnabled(wanted);
    setOn(wanted);
  };
  return (
    <Switch
      mb="md"
      label={t("palette.singleKeys")}
      checked={on}
      onChange={(event) => change(event.currentTarget.checked)}
    />
  );
}
