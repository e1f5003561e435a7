-- Documents: an execution over up to 2,000 files; each is read, and put into one of its project's
-- classes by a language model.
--
-- An execution is a batch, a document one of its tasks (pipeline `documents`): state, attempts,
-- errors and stalls are the engine's. What lies here is what only documents have. It goes when its
-- tasks and its batch are forgotten.

CREATE TABLE regente.document_projects (
  name                  text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
  classes               jsonb NOT NULL,
  -- [{"name", "description"}], in the order in which they are offered
  instructions          text NOT NULL DEFAULT '',
  model                 text,            -- none: that of the settings
  max_retries_execucao  smallint NOT NULL DEFAULT 3 CHECK (max_retries_execucao BETWEEN 0 AND 100),
  max_retries_documento smallint NOT NULL DEFAULT 2 CHECK (max_retries_documento BETWEEN 0 AND 100),
  created_at            timestamptz NOT NULL DEFAULT regente.clock(),
  updated_at            timestamptz NOT NULL DEFAULT regente.clock()
);

INSERT INTO regente.document_projects (name, classes) VALUES ('default', '[
  {"name": "petição", "description": "a party asks a court for something"},
  {"name": "decisão", "description": "a court decides or orders something"},
  {"name": "contrato", "description": "an agreement between parties, with its terms"},
  {"name": "nota fiscal", "description": "an invoice or receipt for goods or services"},
  {"name": "ofício", "description": "an official letter of one authority to another"},
  {"name": "outro", "description": "none of the others"}]');

-- With the project as it was when the execution was submitted: changing a project changes no
-- execution.
CREATE TABLE regente.document_executions (
  id           bigint PRIMARY KEY REFERENCES regente.batches ON DELETE CASCADE,
  project      text NOT NULL,
  classes      jsonb NOT NULL,
  instructions text NOT NULL,
  model        text,
  source       text NOT NULL CHECK (source IN ('folder', 'upload')),
  folder       text,
  created_by   text,
  created_at   timestamptz NOT NULL DEFAULT regente.clock(),
  CONSTRAINT a_folder_is_named CHECK ((source = 'folder') = (folder IS NOT NULL))
);

CREATE TABLE regente.documents (
  task_id      bigint PRIMARY KEY REFERENCES regente.tasks ON DELETE CASCADE,
  execution_id bigint NOT NULL REFERENCES regente.document_executions ON DELETE CASCADE,
  code         text NOT NULL,     -- its path in the folder, or its file name
  size_bytes   bigint NOT NULL,
  kind         text,
  sha256       text,
  pages        integer,
  characters   integer,           -- how much of it was read
  category     text,
  confidence   real,
  rationale    text,
  model        text,              -- the one that answered
  skip_code    text,
  skip_reason  text,
  asked        integer NOT NULL DEFAULT 0,
  -- answers that were no use: the next question is a new one
  last_answer  text,                        -- the last of them
  UNIQUE (execution_id, code)
);

-- What was uploaded, until its document is done. Files of a folder stay where they are.
CREATE TABLE regente.document_contents (
  task_id bigint PRIMARY KEY REFERENCES regente.documents ON DELETE CASCADE,
  body    bytea NOT NULL
);
-- PDFs and images are compressed already.
ALTER TABLE regente.document_contents ALTER COLUMN body SET STORAGE EXTERNAL;

-- In the words of the original specification.
CREATE VIEW regente.document_results AS
SELECT d.task_id AS id, d.execution_id AS execucao_id, d.code AS codigo,
       CASE t.status WHEN 'running' THEN 'PROCESSANDO' WHEN 'completed' THEN 'CONCLUIDO'
            WHEN 'failed' THEN 'ERRO'
                     WHEN 'skipped' THEN 'PULADO' WHEN 'canceled' THEN 'CANCELADO'
                         ELSE 'PENDENTE' END AS status,
       t.tries + t.crashes + (t.status IN ('running', 'completed', 'skipped'))::integer
           AS tentativas,
       CASE WHEN t.status = 'completed' THEN d.category END AS categoria,
       CASE WHEN t.status = 'completed' THEN d.confidence END AS confianca,
       CASE WHEN t.status = 'completed' THEN d.rationale END AS justificativa,
       CASE WHEN t.status = 'skipped' THEN d.skip_code END AS pulado_codigo,
       CASE WHEN t.status = 'skipped' THEN d.skip_reason END AS pulado_motivo,
       coalesce(f.code, t.error_code) AS erro_codigo,
       coalesce(f.message, t.error_message) AS erro_mensagem,
       coalesce(f.details ->> 'stack', f.stack) AS erro_stack, f.step AS erro_etapa,
       f.at AS ultimo_erro_em,
       t.checkpoint AS etapa, t.finished_at AS concluido_em, d.size_bytes AS tamanho_bytes,
       d.kind AS tipo, d.sha256,
       d.pages AS paginas, d.characters AS caracteres, d.model AS modelo,
       d.last_answer AS ultima_resposta
FROM regente.documents d JOIN regente.tasks t ON t.id = d.task_id
LEFT JOIN LATERAL (
  SELECT f.code, f.message, f.stack, f.step, f.at, f.details FROM regente.failures f
  WHERE f.task_id = d.task_id AND f.class <> 'throttled' ORDER BY f.id DESC LIMIT 1) AS f ON true;
