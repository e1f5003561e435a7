DROP VIEW regente.resultados_classificacao;
DROP VIEW regente.execucoes_classificacao;
