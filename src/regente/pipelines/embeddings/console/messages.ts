import { withMessages } from "@console/i18n";

export const en = {
  "embeddings.stored": "Stored vectors",
  "embeddings.none": "No embeddings yet. Add texts in a terminal:",
  "embeddings.vectors": "Vectors",
  "embeddings.storage": "Stored as",
  "embeddings.size": "Size",
  "embeddings.kilobytes": "{size} kB",
  "embeddings.tasks": "Tasks: {status}",
  "embeddings.models": "Models",
  "embeddings.model": "Model",
  "embeddings.dimensions": "Dimensions",
  "embeddings.newest": "Newest",
  "embeddings.search": "Similarity search",
  "embeddings.text": "Text",
  "embeddings.submit": "Search",
  "embeddings.similarity": "Similarity",
  "embeddings.found": "Texts found",
  "embeddings.nothing": "No texts found for this model.",
  "embeddings.operators":
    "Search requires the operator role, because a new text may cost a call to the provider.",
};

export const ptBR = {
  "embeddings.stored": "Vetores armazenados",
  "embeddings.none": "Nenhum embedding ainda. Adicione textos em um terminal:",
  "embeddings.vectors": "Vetores",
  "embeddings.storage": "Armazenados como",
  "embeddings.size": "Tamanho",
  "embeddings.kilobytes": "{size} kB",
  "embeddings.tasks": "Tarefas: {status}",
  "embeddings.models": "Modelos",
  "embeddings.model": "Modelo",
  "embeddings.dimensions": "Dimensões",
  "embeddings.newest": "Mais recente",
  "embeddings.search": "Busca por similaridade",
  "embeddings.text": "Texto",
  "embeddings.submit": "Buscar",
  "embeddings.similarity": "Similaridade",
  "embeddings.found": "Textos encontrados",
  "embeddings.nothing": "Nenhum texto encontrado para este modelo.",
  "embeddings.operators":
    "A busca exige o papel de operação, porque um texto novo pode custar uma chamada ao provedor.",
};

export const { useT, isMessageId } = withMessages(en, ptBR);
