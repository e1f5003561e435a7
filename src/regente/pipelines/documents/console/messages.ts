import { withMessages } from "@console/i18n";

export const en = {
  "executions.title": "Executions",
  "executions.none": "No executions yet. Classify a folder of documents in a terminal:",
  "executions.name": "Execution",
  "executions.one": "Execution {name}",
  "executions.project": "Project",
  "executions.progress": "Progress",
  "executions.documents": "Documents",
  "executions.counts": "Status",
  "executions.resumes": "Resumes",
  "executions.by": "Created by",
  "executions.stoppedAt": "Stopped at",
  "executions.gaveUp": "Given up after {resumes} resumes. Finished documents are stored.",
  "executions.silentTitle": "No events for 60 seconds",
  "executions.silent":
    "No event of this execution since {time}; last progress {ago}. It is still in progress: it counts as TRAVADO after 5 minutes without progress.",
  "executions.results": "Document results",
  "executions.filter": "Filter by status",
  "executions.noneMatch": "No document has this status.",
  "executions.noDocuments": "This execution has no documents.",
  "executions.document": "Document",
  "executions.class": "Class",
  "executions.confidence": "Confidence",
  "executions.reason": "Reason",
  "executions.pages": "Pages",
};

export const ptBR = {
  "executions.title": "Execuções",
  "executions.none": "Nenhuma execução ainda. Classifique uma pasta de documentos em um terminal:",
  "executions.name": "Execução",
  "executions.one": "Execução {name}",
  "executions.project": "Projeto",
  "executions.progress": "Progresso",
  "executions.documents": "Documentos",
  "executions.counts": "Situação",
  "executions.resumes": "Retomadas",
  "executions.by": "Criada por",
  "executions.stoppedAt": "Parou em",
  "executions.gaveUp":
    "Encerrada com erro após {resumes} retomadas. O que já foi concluído está salvo.",
  "executions.silentTitle": "60 segundos sem eventos",
  "executions.silent":
    "Nenhum evento desta execução desde {time}; último progresso {ago}. Ela continua em andamento: é marcada como TRAVADO após 5 minutos sem progresso.",
  "executions.results": "Resultados dos documentos",
  "executions.filter": "Filtrar por status",
  "executions.noneMatch": "Nenhum documento tem este status.",
  "executions.noDocuments": "Esta execução não tem documentos.",
  "executions.document": "Documento",
  "executions.class": "Classe",
  "executions.confidence": "Confiança",
  "executions.reason": "Motivo",
  "executions.pages": "Páginas",
};

export const { useT, isMessageId } = withMessages(en, ptBR);
