#!/bin/bash
# Pre-training on 8 machines with 8 GPUs each: sbatch deploy/slurm.sh
# The environment, the corpus and the run folder are on a file system that all machines share.
#SBATCH --job-name=maskwright
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -euo pipefail

environment=${MASKWRIGHT_ENVIRONMENT:-$HOME/maskwright}
corpus=${MASKWRIGHT_CORPUS:-/shared/corpus}
run=${MASKWRIGHT_RUN:-/shared/runs/a}

source "$environment/bin/activate"
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# SIGTERM, two minutes before the end, saves a checkpoint; the requeued job resumes from it.
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint "$head:29500" \
  --rdzv-id "$SLURM_JOB_ID" -m maskwright pretrain --preset bert-base --steps 100000 --batch-tokens 1048576 \
  --accumulation 64 --set checkpoint_every=1000 -o "$run" "$corpus"
